// SWITCHYARD_TRACE's file: the events of all ranks in Chrome's trace-event format, written by rank 0. lifecycle calls.
#pragma once

namespace swy::report {

// Both collective over MPI_COMM_WORLD (real MPI, host memory), in a job with SWITCHYARD_TRACE. What goes wrong with the
// file is told on standard error; the program's own result is not touched.
void begin_trace();
void write_trace();

}  // namespace swy::report
