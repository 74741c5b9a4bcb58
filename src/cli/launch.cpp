#include "cli/launch.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <string_view>

#include "topology/machine.hpp"

namespace swy::cli {

namespace {

std::string value_of(const Environment& environment, std::string_view name) {
    for (const auto& [key, value] : environment) {
        if (key == name)
            return value;
    }
    return {};
}

bool has(const Environment& environment, std::string_view name) {
    return std::any_of(environment.begin(), environment.end(), [&](const auto& entry) { return entry.first == name; });
}

// Removes the user's own "-x NAME=VALUE" from mpirun's options: the value that we export has to contain it, and mpirun
// refuses two -x of one name. Returns whether it was there.
bool take_exported(std::vector<std::string>& options, std::string_view name, std::string& value) {
    for (std::size_t i = 0; i + 1 < options.size(); ++i) {
        const std::string_view argument = options[i + 1];
        if ((options[i] != "-x" && options[i] != "--x") || argument.substr(0, argument.find('=')) != name)
            continue;
        const bool with_value = argument.size() > name.size();
        if (with_value)
            value = argument.substr(name.size() + 1);
        options.erase(options.begin() + static_cast<std::ptrdiff_t>(i),
                      options.begin() + static_cast<std::ptrdiff_t>(i) + 2);
        return with_value;
    }
    return false;
}

bool exports(const std::vector<std::string>& options, std::string_view name) {
    for (std::size_t i = 0; i + 1 < options.size(); ++i) {
        const std::string_view argument = options[i + 1];
        if ((options[i] == "-x" || options[i] == "--x") && argument.substr(0, argument.find('=')) == name)
            return true;
    }
    return false;
}

std::string with_library(const std::string& before, const std::string& library) {
    if (before.find(library.substr(library.rfind('/') + 1)) != std::string::npos)
        return before;
    return before.empty() ? library : before + ":" + library;
}

// A tool that is preloaded already stays in front: it wraps MPI_X and calls PMPI_X, which is ours. Of the virtual GPUs
// one library is preloaded: it replaces NVIDIA's CUDA runtime in programs that have it linked in.
std::string preload(const std::string& before, const Wishes& wishes) {
    const bool there = before.find("libswitchyard.so") != std::string::npos;
    const std::string with_ours = there ? before : with_library(before, wishes.shim);
    return wishes.virtual_gpus.empty() ? with_ours
                                       : with_library(with_ours, wishes.virtual_gpus + "/libvgpu_static.so");
}

// Virtual GPUs are for machines smaller than the job, on which times mean nothing: there may be more ranks than cores,
// a rank that waits gives its core to another, and none is kept to one core. What the user gives mpirun as an option
// takes precedence over these variables. Open MPI 4.1 reads those of OMPI, 5.0 those of PRTE and the last; each ignores
// the others.
constexpr std::pair<const char*, const char*> kOversubscription[] = {
    {"OMPI_MCA_rmaps_base_oversubscribe", "1"}, {"PRTE_MCA_rmaps_default_mapping_policy", ":OVERSUBSCRIBE"}};
constexpr std::pair<const char*, const char*> kSharedCores[] = {{"OMPI_MCA_hwloc_base_binding_policy", "none"},
                                                                {"PRTE_MCA_hwloc_default_binding_policy", "none"},
                                                                {"OMPI_MCA_mpi_yield_when_idle", "1"}};

// Open MPI 4.1 lets the variable win over this option.
bool forbids_oversubscription(const std::vector<std::string>& options) {
    return std::any_of(options.begin(), options.end(), [](const auto& argument) {
        return argument == "--nooversubscribe" || argument == "-nooversubscribe";
    });
}

void add_unless_set(std::span<const std::pair<const char*, const char*>> variables, const Environment& environment,
                    Environment& added) {
    for (const auto& [name, value] : variables) {
        if (!has(environment, name))
            added.emplace_back(name, value);
    }
}

constexpr const char* kNoDevices = "CUDA_VISIBLE_DEVICES=-1";

std::string search_path(const std::string& first, const std::string& before) {
    return before.empty() ? first : first + ":" + before;
}

bool is_one_of(std::string_view argument, std::initializer_list<std::string_view> arguments) {
    return std::find(arguments.begin(), arguments.end(), argument) != arguments.end();
}

// mpirun starts programs for root only where two environment variables or an option allow it.
std::string for_root(const Wishes& wishes, const Environment& environment) {
    const auto both = [&](const std::string& name) {
        return has(environment, name) && has(environment, name + "_CONFIRM");
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

std::string exported_twice(const Wishes& wishes) {
    for (const auto& [name, value] : wishes.settings) {
        if (exports(wishes.mpirun_options, name))
            return name;
    }
    return {};
}

bool can_be_preloaded(const std::string& library) {
    return library.find_first_of(": ") == std::string::npos;
}

Launch make_rank(const Wishes& wishes, const Environment& environment) {
    Launch launch;
    launch.added.emplace_back("LD_PRELOAD", preload(value_of(environment, "LD_PRELOAD"), wishes));
    if (!wishes.virtual_gpus.empty()) {
        launch.added.emplace_back("LD_LIBRARY_PATH",
                                  search_path(wishes.virtual_gpus, value_of(environment, "LD_LIBRARY_PATH")));
        launch.added.emplace_back("VGPU_COUNT", std::to_string(wishes.count));
    }
    launch.added.insert(launch.added.end(), wishes.settings.begin(), wishes.settings.end());
    if (wishes.gpus == "none")
        launch.added.emplace_back("CUDA_VISIBLE_DEVICES", "-1");
    launch.arguments = wishes.program;
    return launch;
}

Launch make_launch(const Wishes& wishes, const Environment& environment) {
    Launch launch;
    std::vector<std::string> options = wishes.mpirun_options;
    std::vector<std::string> exports_of_ours;
    const auto exported = [&](const std::string& setting) {
        exports_of_ours.emplace_back("-x");
        exports_of_ours.push_back(setting);
    };

    std::string preloaded = value_of(environment, "LD_PRELOAD");
    take_exported(options, "LD_PRELOAD", preloaded);
    std::string path = value_of(environment, "LD_LIBRARY_PATH");
    const bool path_named = take_exported(options, "LD_LIBRARY_PATH", path);
    exported("LD_PRELOAD=" + preload(preloaded, wishes));

    const bool is_virtual = !wishes.virtual_gpus.empty();
    if (is_virtual) {
        exported("LD_LIBRARY_PATH=" + search_path(wishes.virtual_gpus, path));
        exported("VGPU_COUNT=" + std::to_string(wishes.count));
        if (!forbids_oversubscription(options))
            add_unless_set(kOversubscription, environment, launch.added);
        add_unless_set(kSharedCores, environment, launch.added);
    } else if (path_named) {
        exported("LD_LIBRARY_PATH=" + path);
    }
    for (const auto& [name, value] : wishes.settings)
        exported(name + "=" + value);
    if (wishes.gpus == "none")
        exported(kNoDevices);
    // Processes on other nodes see only what mpirun exports.
    for (const auto& [name, value] : environment) {
        const bool ours =
            name == "SWITCHYARD" || name.starts_with("SWITCHYARD_") || (is_virtual && name.starts_with("VGPU_"));
        const bool given = has(wishes.settings, name) || name == "VGPU_COUNT" || exports(options, name);
        if (ours && !given)
            exported(name);
    }
    std::vector<std::string>& arguments = launch.arguments;
    arguments.push_back(wishes.mpirun);
    arguments.insert(arguments.end(), options.begin(), options.end());
    arguments.insert(arguments.end(), exports_of_ours.begin(), exports_of_ours.end());
    if (wishes.gpus == "near" || wishes.gpus == "spread")
        arguments.insert(arguments.end(), {wishes.command, "place", wishes.gpus, "--"});
    for (const std::string& argument : wishes.program) {
        arguments.push_back(argument);
        if (argument == ":")  // another program of the same job; Open MPI 4.1 exports to each apart
            arguments.insert(arguments.end(), exports_of_ours.begin(), exports_of_ours.end());
    }
    return launch;
}

std::string shell_quoted(const std::string& argument) {
    constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./:,@%^";
    if (!argument.empty() && argument.find_first_not_of(kPlain) == std::string::npos)
        return argument;
    std::string text = "'";
    for (char c : argument) {
        if (c == '\'')
            text += "'\\''";
        else
            text += c;
    }
    return text + "'";
}

std::string shell_line(const Launch& launch) {
    std::string line;
    for (const auto& [name, value] : launch.added)
        line += name + "=" + shell_quoted(value) + " ";
    for (const std::string& argument : launch.arguments)
        line += shell_quoted(argument) + " ";
    line.pop_back();
    return line;
}

std::vector<std::string> expected_refusals(const Wishes& wishes, const Environment& environment) {
    std::vector<std::string> refusals = {for_root(wishes, environment), for_many_ranks(wishes, environment)};
    std::erase(refusals, "");
    return refusals;
}

}  // namespace swy::cli
