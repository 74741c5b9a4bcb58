// The report: which transport each call took, and why. Counters per call, transport and reason; one table or one JSON
// object at MPI_Finalize. Code that completes a call adds to it; init/lifecycle.cpp has it collected and printed.
#pragma once

#include <mpi.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

#include "call/reason.hpp"
#include "call_ids.hpp"
#include "report/summary.hpp"
#include "report/trace.hpp"

namespace swy::report {

// Set at MPI_Init. While `enabled` is false nothing need be recorded: nobody wants a report, a trace or routes as they
// are chosen. `covers_host_calls`: a report or a trace is wanted, in which calls on host memory count too.
extern bool enabled, covers_host_calls;

// Counts one call. `bytes`: of the payload on this rank. Thread-safe, no lock.
void add(CallId call, Carrier carrier, Reason reason, std::size_t bytes, double seconds);

// Record a call that ends now, in report and trace: tell_call() for one that this thread has been in since it began,
// tell_operation() for an operation that may overlap with others.
using Time = std::chrono::steady_clock::time_point;
void tell_call(CallId call, Carrier carrier, Reason reason, std::size_t bytes, Time begin);
void tell_operation(CallId call, Carrier carrier, Reason reason, std::size_t bytes, Time begin, std::uint64_t operation,
                    const trace::Subject& subject);

// Notes when the run has begun, as the report has it. Once in a process, at MPI_Init.
void begin_run();

// Facts that the report prints besides the counters; write() gathers those of all ranks.
struct Facts {
    std::string mpi_library, nccl_version, driver;  // as found on this rank; "" where not loaded
    std::string kernels;       // why the library's kernels could not be loaded on this rank; "" where nothing is wrong
    std::string host, device;  // this rank's host name, and device (name, PCI id), "" when none was used
    std::string tools_above,
        tools_below;              // tools that wrap MPI in this process, above and below Switchyard; "" without
    std::string tuning;           // rank 0's: the tuning file and whether it is used; "" without one
    Communicators communicators;  // this rank's own
};

// Collective over `comm`, the ranks of MPI_COMM_WORLD or those that are left of it (real MPI, host memory): sums the
// counters; rank 0 prints the report to standard error
// or writes the file, as rank 0's SWITCHYARD_REPORT says. Errors with the file are reported on standard error; the
// program's own result is not changed.
void write(const Facts& mine, MPI_Comm comm);

}  // namespace swy::report
