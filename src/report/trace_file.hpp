// SWITCHYARD_TRACE's file: the events of all ranks in Chrome's trace-event format, written by rank 0.
// init/lifecycle.cpp calls these.
#pragma once

namespace swy::report {

// Both are collective over MPI_COMM_WORLD (real MPI, host memory), in a job with SWITCHYARD_TRACE. Errors with the file
// are reported on standard error; the program's own result is not changed.
void begin_trace();
void write_trace();

// Writes this rank's events alone, as far as they came, to FILE.rankN: for a process that ends before MPI_Finalize. No
// MPI.
void write_own_trace();

}  // namespace swy::report
