#include "settings/slurm.hpp"

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
    const std::string_view bind = slurm_variable("SLURM_GPU_BIND"), per_task = slurm_variable("SLURM_GPUS_PER_TASK");
    std::string asked;
    if (bind == "none")
        return {};
    if (!per_task.empty())
        asked = "--gpus-per-task=" + std::string(per_task);
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
