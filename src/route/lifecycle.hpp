// What happens at MPI_Init, MPI_Finalize and MPI_Abort. The doors of these calls use it; nothing else does.
#pragma once

namespace swy::route {

// Once MPI is up, before the program's MPI_Init returns; collective over MPI_COMM_WORLD. Reads the settings, learns
// whether any node of the job has a GPU driver, opens the gate accordingly. A bad setting is raised as an MPI error on
// MPI_COMM_WORLD; returns MPI's code.
int after_init();

// Before MPI goes down, collective over MPI_COMM_WORLD: ends NCCL communicators, frees device resources, writes the
// report.
void before_finalize();

}  // namespace swy::route
