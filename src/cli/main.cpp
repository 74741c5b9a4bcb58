// The switchyard command: calls the function of the subcommand. Each subcommand has its own file.
#include <cerrno>
#include <clocale>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "cli/commands.hpp"
#include "config.h"

namespace {

constexpr const char* kHelp =
    "Makes an MPI program's GPU communication right and fast without changing the program.\n"
    "\n"
    "Usage:\n"
    "  switchyard run [--virtual-gpus N] [-n NP] [--report] [mpirun options] -- PROGRAM [ARGS]\n"
    "                      run a program under mpirun with Switchyard\n"
    "  switchyard info     what was found here (MPI, GPU driver, NCCL) and every setting\n"
    "  switchyard doctor [PROGRAM]\n"
    "                      check that Switchyard can work here, and what to do where it cannot\n"
    "  switchyard topo     the node with its GPUs, and which suits which rank\n"
    "  switchyard tune     measure from which size on NCCL is the faster one, for SWITCHYARD_TUNING\n"
    "  switchyard report FILE...\n"
    "                      print what run --report=json:FILE wrote, or compare several\n"
    "  switchyard status [JOB | PID]...\n"
    "                      what each rank of a job on this host is in, and what it waits for\n"
    "  switchyard --version\n"
    "\n"
    "Each has its own --help; the manual pages are switchyard(1), switchyard-run(1), switchyard-info(1),\n"
    "switchyard-doctor(1), switchyard-topo(1), switchyard-tune(1), switchyard-report(1), switchyard-status(1),\n"
    "switchyard(7) for the settings, and vgpu(7) for the virtual GPUs.\n";

int subcommand(const std::vector<std::string>& arguments) {
    const std::string_view first = arguments.empty() ? std::string_view() : arguments[0];
    const std::span<const std::string> rest = std::span(arguments).subspan(arguments.empty() ? 0 : 1);
    if (first == "run")
        return swy::cli::run(rest);
    if (first == "info")
        return swy::cli::info(rest);
    if (first == "doctor")
        return swy::cli::doctor(rest);
    if (first == "topo")
        return swy::cli::topo(rest);
    if (first == "tune")
        return swy::cli::tune(rest);
    if (first == "report")
        return swy::cli::report(rest);
    if (first == "status")
        return swy::cli::status(rest);
    if (first == "ended")
        return swy::cli::ended(rest);
    if (first == "place")
        return swy::cli::place(rest);
    if (first == "settings")
        return swy::cli::settings(rest);
    if (first == "--version" || first == "-V") {
        std::puts("switchyard " PACKAGE_VERSION);
        return swy::cli::kDone;
    }
    if (first == "--help" || first == "-h" || first == "help") {
        std::fputs(kHelp, stdout);
        return swy::cli::kDone;
    }
    if (first.empty())
        std::fprintf(stderr, "%s", kHelp);
    else
        std::fprintf(
            stderr,
            "switchyard: there is no command \"%s\"; there are run, info, doctor, topo, tune, report and status "
            "(switchyard --help)\n",
            arguments[0].c_str());
    return swy::cli::kUsage;
}

}  // namespace

int main(int argc, char** argv) {
    std::setlocale(LC_CTYPE, "");  // which characters can be shown; numbers stay as they are
    const int status = subcommand(std::vector<std::string>(argv + 1, argv + argc));
    // Output that could not be written, to a full disk say, must not end with a status of success.
    errno = 0;
    if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0)
        return status;
    std::fprintf(stderr, "switchyard: standard output cannot be written: %s\n",
                 errno != 0 ? std::strerror(errno) : "an error before");
    return status == swy::cli::kDone ? swy::cli::kProblem : status;
}
