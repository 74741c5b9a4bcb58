// What was carried by what, and why: counters per call, carrier and reason; one table or one JSON object at
// MPI_Finalize. The router adds; lifecycle collects and prints; nothing else calls.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

#include "call_ids.hpp"
#include "report/summary.hpp"
#include "route/reason.hpp"

namespace swy::report {

extern bool enabled;  // set at MPI_Init: a report or a trace is wanted; when false nothing is told here

// One call done. `bytes`: of the payload on this rank. Thread-safe, no lock.
void add(CallId call, Carrier carrier, Reason reason, std::size_t bytes, double seconds);

// The same of a call that ends now, for report and trace: one that this thread has been in since it began, or an
// operation that may overlap with others.
using Time = std::chrono::steady_clock::time_point;
void tell_call(CallId call, Carrier carrier, Reason reason, std::size_t bytes, Time begin);
void tell_operation(CallId call, Carrier carrier, Reason reason, std::size_t bytes, Time begin,
                    std::uint64_t operation);

// Facts that the report prints beside the counters; collective facts are gathered by write().
struct Facts {
    std::string mpi_library, nccl_version, driver;  // as found on this rank; "" where not loaded
    std::string host, device;     // this rank's host name, and device (name, PCI id), "" when none was used
    std::string tuning;           // rank 0's: what became of the tuning file, "" without one
    Communicators communicators;  // this rank's own
};

// Collective over MPI_COMM_WORLD (real MPI, host memory): sums the counters, rank 0 prints to standard error or writes
// the file, as SWITCHYARD_REPORT on rank 0 says. What goes wrong with the file is told on standard error; the program's
// own result is not touched.
void write(const Facts& mine);

}  // namespace swy::report
