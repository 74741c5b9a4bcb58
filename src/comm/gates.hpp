// For an MPI whose progress does not call the engine back (progress/stepping.hpp): a collective call waits for the
// other ranks in MPI_Ibarrier, in whose completion the engine is stepped, before the real call, in which it is not.
// When the gate is passed all ranks have come, so the real call waits for nothing that needs this process's engine.
//
// All ranks of the job pass the same gates, since all have the same MPI. Communicators that span jobs have none: the
// others may have another one, or no Switchyard. src/init alone calls this file.
#pragma once

namespace swy::comm {

// Replaces the real functions that are collective over a communicator, a window or a file, and those of windows'
// post-start epochs. Collective over MPI_COMM_WORLD, after start() of state.hpp; returns MPI's code.
//
// Three kinds of calls wait without a step: MPI_Win_lock and MPI_Win_lock_all for a lock that another rank holds, and
// MPI_Comm_create_from_group and MPI_Intercomm_create_from_groups, whose processes have no communicator yet.
int open_gates();

// Frees what open_gates() has made. Collective over MPI_COMM_WORLD, before MPI_Finalize; the replaced functions make
// the real calls alone from stop() of state.hpp on.
void close_gates();

}  // namespace swy::comm
