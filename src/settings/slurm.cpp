#include "settings/slurm.hpp"

#include <algorithm>
#include <cstdlib>
#include <initializer_list>
#include <string_view>

namespace swy::settings {
namespace {

std::string_view slurm_variable(const char* name) {
    const char* text = std::getenv(name);
    return text != nullptr ? text : "";
}

// Slurm's lists begin with the first node's number: "4(x2),3".
int first_number(std::string_view text) {
    return std::atoi(std::string(text).c_str());
}

// The number of GPUs in a list such as "0,1,3" or "0-3".
int count_of(std::string_view list) {
    int count = 0;
    while (!list.empty()) {
        const std::string_view one = list.substr(0, list.find(','));
        const std::size_t dash = one.find('-');
        count += dash == std::string_view::npos ? 1 : first_number(one.substr(dash + 1)) - first_number(one) + 1;
        list.remove_prefix(std::min(list.size(), one.size() + 1));
    }
    return count;
}

// How the task's GPUs were chosen, as --gpu-bind says it. Slurm 22.05 tells the tasks of an srun in SLURMD_TRES_BIND
// alone, as "gpu:per_task:1" where --gpus-per-task asked for it; SLURM_GPU_BIND and SLURM_GPUS_PER_TASK are there in a
// batch job that asked.
constexpr std::string_view kOfGpus = "gpu:", kPerTask = "per_task:";
std::string_view gpu_bind() {
    const std::string_view told = slurm_variable("SLURMD_TRES_BIND");
    return told.starts_with(kOfGpus) ? told.substr(kOfGpus.size()) : slurm_variable("SLURM_GPU_BIND");
}

// What a launcher that Open MPI takes its place in the job from has set: PMIx, PMI, or mpirun.
bool is_joined() {
    for (const char* name : {"PMIX_RANK", "PMIX_NAMESPACE", "PMI_RANK", "PMI_FD", "OMPI_COMM_WORLD_RANK"})
        if (!slurm_variable(name).empty())
            return true;
    return false;
}

}  // namespace

std::string tasks_without_pmix() {
    const int tasks = first_number(slurm_variable("SLURM_STEP_NUM_TASKS"));
    if (slurm_variable("SLURM_STEP_ID").empty() || tasks <= 1 || is_joined())
        return {};
    return "srun has started " + std::to_string(tasks) +
           " tasks, each of which is an MPI job of its own: nothing in their environment joins them (PMIX_RANK). Start "
           "them with srun --mpi=pmix; srun --mpi=list shows what this Slurm has";
}

std::string gpus_hidden_by_slurm() {
    const std::string_view bind = gpu_bind(), per_task = slurm_variable("SLURM_GPUS_PER_TASK");
    const int shown = count_of(slurm_variable("SLURM_STEP_GPUS"));
    std::string asked;
    if (bind == "none" || (shown > 0 && shown == first_number(slurm_variable("SLURM_GPUS_ON_NODE"))))
        return {};
    if (!per_task.empty())
        asked = "--gpus-per-task=" + std::string(per_task);
    else if (bind.starts_with(kPerTask))
        asked = "--gpus-per-task=" + std::string(bind.substr(kPerTask.size()));
    else if (slurm_variable("SLURM_TRES_PER_TASK").find("gpu") != std::string_view::npos)
        asked = "--tres-per-task=" + std::string(slurm_variable("SLURM_TRES_PER_TASK"));
    else if (!bind.empty())
        asked = "--gpu-bind=" + std::string(bind);
    if (asked.empty() || first_number(slurm_variable("SLURM_STEP_TASKS_PER_NODE")) <= 1)
        return {};
    return "Slurm gives each task GPUs of its own (" + asked +
           "). Where it hides those of the others, NCCL cannot map their memory (CUDA IPC) and goes through host "
           "memory "
           "instead of NVLink. Ask for GPUs by node (--gpus-per-node) or add --gpu-bind=none, and divide them by "
           "switchyard run --gpus near";
}

bool is_first_task() {
    return first_number(slurm_variable("SLURM_PROCID")) == 0;
}

}  // namespace swy::settings
