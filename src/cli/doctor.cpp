#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <nlohmann/json.hpp>
#include <string_view>

#include "cli/arguments.hpp"
#include "cli/checks.hpp"
#include "cli/commands.hpp"
#include "settings/settings.hpp"

namespace swy::cli {

namespace {

constexpr const char* kDoctorNotes =
    "PROGRAM is looked at, not started: which MPI it is linked with, and whether Switchyard comes before that.\n"
    "\nExamples:\n"
    "  switchyard doctor\n"
    "  switchyard doctor --virtual-gpus 2 ./app\n";

constexpr std::string_view kNames[] = {"good", "note", "problem"};  // by Health
constexpr std::string_view kColours[] = {"\033[32m", "\033[33m", "\033[31m"};

std::string_view name_of(Health health) {
    return kNames[static_cast<std::size_t>(health)];
}

bool wants_colour() {
    const char* terminal = std::getenv("TERM");
    const char* no_color = std::getenv("NO_COLOR");  // no-color.org
    return isatty(STDOUT_FILENO) != 0 && terminal != nullptr && std::string_view(terminal) != "dumb" &&
           (no_color == nullptr || *no_color == '\0');
}

// Prints each check when it is done; on a terminal what is being looked at, before.
class Printer {
  public:
    void begin(std::string_view title) const {
        if (isatty(STDOUT_FILENO) != 0)
            fmt::print("  ...      {}", title);
        std::fflush(stdout);
    }
    void end(const Check& check) const {
        if (isatty(STDOUT_FILENO) != 0)
            std::fputs("\r\033[K", stdout);
        const auto health = static_cast<std::size_t>(check.health);
        fmt::print("  {}{:<8}{} {:<14} {}\n", colour_ ? kColours[health] : "", name_of(check.health),
                   colour_ ? "\033[0m" : "", check.name, indented(check.seen));
        if (!check.remedy.empty())
            fmt::print("{:26}{}\n", "", indented(check.remedy));
        std::fflush(stdout);
    }

  private:
    static std::string indented(const std::string& text) {
        std::string lines;
        for (const char c : text.substr(0, text.find_last_not_of('\n') + 1))
            lines += c == '\n' ? "\n" + std::string(26, ' ') : std::string(1, c);
        return lines;
    }
    bool colour_ = wants_colour();
};

struct Step {
    const char* title;
    std::function<std::vector<Check>()> look;
};

std::vector<Step> steps(const Patient& patient) {
    const auto one = [&patient](Check (*check)(const Patient&)) {
        return [&patient, check] { return std::vector{check(patient)}; };
    };
    std::vector<Step> all = {{"the library", one(check_library)},
                             {"mpirun", one(check_mpirun)},
                             {"the GPU driver", one(check_driver)},
                             {"the kernels", one(check_kernels)},
                             {"NCCL", one(check_nccl)},
                             {"the settings", one(check_settings)},
                             {"shared memory", one(check_shared_memory)},
                             {"LD_PRELOAD", one(check_preload)}};
    if (!patient.program.empty())
        all.push_back({"the program", [&patient] { return check_program(patient); }});
    all.push_back({"two ranks under mpirun", [&patient] { return check_ranks(patient); }});
    return all;
}

std::string as_json(const std::vector<Check>& checks, bool healthy) {
    nlohmann::ordered_json all;
    all["healthy"] = healthy;
    all["checks"] = nlohmann::ordered_json::array();
    for (const Check& check : checks)
        all["checks"].push_back(
            {{"name", check.name}, {"result", name_of(check.health)}, {"seen", check.seen}, {"remedy", check.remedy}});
    return all.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

int examine(const Patient& patient, bool json) {
    std::vector<Check> checks;
    const Printer printer;
    for (const Step& step : steps(patient)) {
        if (!json)
            printer.begin(step.title);
        for (Check& check : step.look()) {
            if (!json)
                printer.end(check);
            checks.push_back(std::move(check));
        }
    }
    std::size_t problems = 0;
    for (const Check& check : checks)
        problems += check.health == Health::kProblem ? 1 : 0;
    if (json)
        std::fputs(as_json(checks, problems == 0).c_str(), stdout);
    else if (problems == 0)
        std::puts("\nNothing is wrong.");
    else
        fmt::print("\n{} problem{}.\n", problems, problems == 1 ? "" : "s");
    return problems == 0 ? kDone : kProblem;
}

}  // namespace

int doctor(std::span<const std::string> arguments) {
    Patient patient;
    bool json = false;
    int count = 0;
    std::string mpirun;
    CLI::App app("Checks that Switchyard can work here, and says what to do where it cannot.", "switchyard doctor");
    app.add_option("PROGRAM", patient.program, "a program to look at too")->type_name("");
    app.add_flag("--json", json, "one object, for machines");
    const auto* gpus = app.add_option("--virtual-gpus", count, "as under switchyard run --virtual-gpus N")
                           ->type_name("N")
                           ->check(CLI::Range(0, 64).description(""));
    app.add_option("--mpirun", mpirun, "the mpirun to use (default: PATH's)")->type_name("FILE");
    app.add_option("--timeout", patient.seconds, "how many seconds two ranks may take (default 60)")
        ->type_name("SECONDS")
        ->check(CLI::Validator(seconds_problem, ""));
    app.footer(kDoctorNotes);
    if (const auto status = read_arguments(app, arguments))
        return *status;
    if (gpus->count() > 0)
        return restart_with_virtual_gpus(count, "doctor", arguments);
    settings::Values values;
    patient.bad_settings = settings::read(values);
    patient.found = probe(values.nccl_library, mpirun);
    patient.mpirun = patient.found.mpirun.command;
    return examine(patient, json);
}

}  // namespace swy::cli
