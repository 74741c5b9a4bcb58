// SWITCHYARD_STALL for calls that wait inside MPI or in a driver, where no loop of the library's looks at the clock
// (progress/stall.hpp has those that do). A thread of each process that records operations (flight.hpp) sleeps, looks
// now and then whether one of the process's blocking calls has lasted that long, and says then, once for the job's
// processes on this host, what each of them is in.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

namespace swy::report::watchdog {

// `oldest` returns the seconds since the begin of the process's oldest blocking call that has not ended, and writes its
// number; 0 where there is none. Does nothing where `stall`, in seconds, is 0 or no thread can be made.
using Oldest = double (*)(std::uint64_t& number);
void start(const std::string& job, double stall, Oldest oldest);
void stop();

// When a thread of this process has last looked at the clock in a wait that speaks for itself: of CLOCK_MONOTONIC, in
// nanoseconds. The watchdog is silent while that goes on.
extern std::atomic<std::int64_t> looked_after;

}  // namespace swy::report::watchdog
