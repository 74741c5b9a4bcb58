// A thread that sleeps, and looks now and then after what no loop of the library's looks after.
//
// SWITCHYARD_STALL for calls that wait inside MPI or in a driver (progress/stall.hpp has those in which the library
// looks at the clock): where one of the process's calls has lasted that long, it says, once for the job's processes on
// this host, what each of them is in. And work on the program's streams, for which the program waits outside MPI.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <string>

namespace swy::report::watchdog {

// What is done about a call that lasts: it is told after `stall` seconds. A collective that is staged waits in MPI's
// own call, which nothing can end: it cannot be made by a call that does not block, since MPI lets these match no
// blocking one (MPI 4.0 section 6.12), and ranks with host memory make that. Where `timeout` is set all ranks have come
// before it is made; if one stops then, or where they could not agree, it is told after `timeout` seconds too, and the
// process ends by SIGTERM where `ends_job` says so. 0 is no limit.
struct Limits {
    double stall = 0;       // SWITCHYARD_STALL
    double timeout = 0;     // SWITCHYARD_TIMEOUT
    bool ends_job = false;  // SWITCHYARD_ON_FAILURE=abort

    double first() const { return stall > 0 && timeout > 0 ? std::min(stall, timeout) : std::max(stall, timeout); }
};

// `oldest` returns the seconds since the begin of the process's oldest call that may wait and has not ended, and writes
// its number; 0 where there is none. Does nothing where there is no limit or no thread can be made.
using Oldest = double (*)(std::uint64_t& number);
void watch_calls(const std::string& job, const Limits& limits, Oldest oldest);

// From now on `look` is called every `period` seconds, on the thread. It must not throw.
void watch_streams(void (*look)(), double period);

void stop();  // waits for the thread

// When a thread of this process has last looked at the clock in a wait that speaks for itself: of CLOCK_MONOTONIC, in
// nanoseconds. The watchdog is silent while that goes on.
extern std::atomic<std::int64_t> looked_after;

}  // namespace swy::report::watchdog
