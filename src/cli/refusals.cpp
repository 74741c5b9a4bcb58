#include "cli/refusals.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <string_view>

#include "topology/machine.hpp"

namespace swy::cli {

namespace {

bool is_one_of(std::string_view argument, std::initializer_list<std::string_view> arguments) {
    return std::find(arguments.begin(), arguments.end(), argument) != arguments.end();
}

bool is_set(const Environment& environment, std::string_view name) {
    return std::any_of(environment.begin(), environment.end(), [&](const auto& entry) { return entry.first == name; });
}

// mpirun starts programs for root only where two environment variables or an option allow it.
std::string for_root(const Wishes& wishes, const Environment& environment) {
    const auto both = [&](const std::string& name) {
        return is_set(environment, name) && is_set(environment, name + "_CONFIRM");
    };
    const auto& options = wishes.mpirun_options;
    if (geteuid() != 0 || both("OMPI_ALLOW_RUN_AS_ROOT") || both("PRTE_ALLOW_RUN_AS_ROOT") ||
        std::any_of(options.begin(), options.end(), [](const std::string& argument) {
            return is_one_of(argument, {"--allow-run-as-root", "-allow-run-as-root"});
        }))
        return {};
    return "you are root, for whom mpirun refuses to start programs. Be another user, or put --allow-run-as-root\n"
           "after \"switchyard run\", or set OMPI_ALLOW_RUN_AS_ROOT=1 and OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 (in a "
           "container).";
}

// Returns the number of ranks where no other option of mpirun's limits the number on a node; 0 otherwise.
int ranks_on_this_node(const std::vector<std::string>& options) {
    int ranks = 0;
    for (auto argument = options.begin(); argument != options.end(); ++argument) {
        const bool last = argument + 1 == options.end();
        if (is_one_of(*argument, {"-n", "-np", "--np", "-c"}) && !last)
            ranks = std::atoi((++argument)->c_str());
        else if (is_one_of(*argument, {"-x", "--bind-to", "-bind-to"}) && !last)
            ++argument;
        else if (!is_one_of(*argument,
                            {"--allow-run-as-root", "-allow-run-as-root", "--report-bindings", "--tag-output"}))
            return 0;
    }
    return ranks;
}

// Returns whether a batch system or a setting of Open MPI may have set the number of slots on a node.
bool others_decide(const Environment& environment) {
    constexpr std::string_view kPrefixes[] = {"SLURM_JOB",      "PBS_JOBID",     "LSB_JOBID", "PE_HOSTFILE",
                                              "OMPI_MCA_rmaps", "OMPI_MCA_orte", "PRTE_MCA_", "OMPI_MCA_hwloc"};
    return std::any_of(environment.begin(), environment.end(), [&](const auto& entry) {
        return std::any_of(std::begin(kPrefixes), std::end(kPrefixes),
                           [&](std::string_view prefix) { return entry.first.starts_with(prefix); });
    });
}

std::string for_many_ranks(const Wishes& wishes, const Environment& environment) {
    const bool one_program = std::find(wishes.program.begin(), wishes.program.end(), ":") == wishes.program.end();
    const int ranks = one_program ? ranks_on_this_node(wishes.mpirun_options) : 0;
    if (!wishes.virtual_gpus.empty() || ranks <= 1 || others_decide(environment))
        return {};
    const int cores = topology::count_cores();
    if (cores == 0 || ranks <= cores)
        return {};
    return fmt::format(
        "{} ranks are more than the {} core{} of this machine, which mpirun refuses. Put --oversubscribe after\n"
        "\"switchyard run\" to have them take turns.",
        ranks, cores, cores == 1 ? "" : "s");
}

}  // namespace

std::vector<std::string> expected_refusals(const Wishes& wishes, const Environment& environment) {
    std::vector<std::string> refusals = {for_root(wishes, environment), for_many_ranks(wishes, environment)};
    std::erase(refusals, "");
    return refusals;
}

}  // namespace swy::cli
