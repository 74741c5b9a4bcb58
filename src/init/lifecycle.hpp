// What happens at MPI_Init, MPI_Finalize and at a session's start and end. The wrappers of these calls use it; nothing
// else does.
#pragma once

#include <string>

namespace swy::init {

// Called once MPI is up, before the program's MPI_Init returns; collective over MPI_COMM_WORLD. Reads the settings,
// learns whether any node of the job has a GPU driver, and opens the driver watch accordingly. A bad setting is raised
// as an MPI error on MPI_COMM_WORLD. Returns MPI's code. `alone`: what is wrong if this process is the only one of its
// job,
// "" for nothing (settings/slurm.hpp); it is said in a job with GPUs.
int after_init(const std::string& alone);

// Called before MPI goes down, collective over MPI_COMM_WORLD: ends NCCL communicators, writes the report, frees device
// resources unless a session still needs them. Does nothing where MPI_Finalize itself will have it done, after the
// program's attributes of MPI_COMM_SELF.
void before_finalize();

// Called once a session exists; local, as MPI_Session_init is (MPI 4.0 section 11.3.1). The first user of MPI in this
// process reads the settings and starts to look for a driver. Without MPI_Init no rank knows another's settings or
// driver, so nothing is agreed on: each rank stages its device buffers for itself. Returns "" or what is wrong with the
// settings; such a session does not count.
std::string after_session_init();

// Called before a session that counts ends; local. The last user frees the device resources.
void before_session_finalize();

}  // namespace swy::init
