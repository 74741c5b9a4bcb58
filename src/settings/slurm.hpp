// What Slurm's variables say against this process's start as a rank: by srun without PMIx, or with the GPUs of other
// ranks hidden. Read by MPI_Init and by `switchyard run`.
#pragma once

#include <string>

namespace swy::settings {

// Where srun has started several tasks that Open MPI cannot join to one job, a sentence with what to do; else "". In
// the tasks of another kind of step, and of mpirun, there is "".
std::string tasks_without_pmix();

// Where Slurm gives each of several tasks on a node GPUs of its own, a sentence with what that means and what to do;
// else
// "".
std::string gpus_hidden_by_slurm();

// Whether this is the first of a step's tasks, which speaks for all.
bool is_first_task();

}  // namespace swy::settings
