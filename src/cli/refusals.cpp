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

bool is_one_of(std::string_view word, std::initializer_list<std::string_view> words) {
    return std::find(words.begin(), words.end(), word) != words.end();
}

bool is_set(const Environment& environment, std::string_view name) {
    return std::any_of(environment.begin(), environment.end(), [&](const auto& entry) { return entry.first == name; });
}

// mpirun starts programs for root only when it is told so, by two variables or an option.
std::string for_root(const Wishes& wishes, const Environment& environment) {
    const auto both = [&](const std::string& name) {
        return is_set(environment, name) && is_set(environment, name + "_CONFIRM");
    };
    const auto& options = wishes.mpirun_options;
    if (geteuid() != 0 || both("OMPI_ALLOW_RUN_AS_ROOT") || both("PRTE_ALLOW_RUN_AS_ROOT") ||
        std::any_of(options.begin(), options.end(), [](const std::string& word) {
            return is_one_of(word, {"--allow-run-as-root", "-allow-run-as-root"});
        }))
        return {};
    return "you are root, for whom mpirun refuses to start programs. Be another user, or put --allow-run-as-root\n"
           "after \"switchyard run\", or set OMPI_ALLOW_RUN_AS_ROOT=1 and OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 (in a "
           "container).";
}

// The number of ranks where mpirun's options say nothing else that may decide how many a node takes; 0 otherwise.
int ranks_on_this_node(const std::vector<std::string>& options) {
    int ranks = 0;
    for (auto word = options.begin(); word != options.end(); ++word) {
        const bool last = word + 1 == options.end();
        if (is_one_of(*word, {"-n", "-np", "--np", "-c"}) && !last)
            ranks = std::atoi((++word)->c_str());
        else if (is_one_of(*word, {"-x", "--bind-to", "-bind-to"}) && !last)
            ++word;
        else if (!is_one_of(*word, {"--allow-run-as-root", "-allow-run-as-root", "--report-bindings", "--tag-output"}))
            return 0;
    }
    return ranks;
}

// Whether a batch system or a setting of Open MPI may have decided how many ranks a node takes.
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
