// The flight recorder: what each process of a job with GPUs did last, and what it is in now, kept where `switchyard
// status` finds it (flight_file.hpp), together with the report's counters. Recording an operation takes two looks at
// the clock, the communicator's name and some stores; calls on host memory alone are not recorded, unless their ranks
// agree on a transport.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "call/call.hpp"
#include "call/reason.hpp"
#include "report/watchdog.hpp"

namespace swy::report::flight {

struct Entry;

extern bool on;  // from MPI_Init to MPI_Finalize of a process that records

// Makes the file, in jobs with GPUs, unless SWITCHYARD_STATUS=no. Without a file, as where /dev/shm is full, nothing is
// recorded. `counts`: a report or a trace is wanted, and counters.hpp counts in the file. `mpi`: the MPI beneath, in
// words. From the first operation on, calls that last are told as `limits` says. Removes files that processes of this
// user left behind more than a day ago. Returns whether there is a file.
bool start(bool counts, const std::string& mpi, const watchdog::Limits& limits);
void stop();  // removes the file
// Notes that the process ends without MPI_Finalize, and what ends it. A signal handler may call it.
void ends(const char* by);
// What the report says of this rank, once it is known.
void is_on(const std::string& device, const std::string& nccl, const std::string& driver);

// One operation, from its begin to end(), or to the object's end.
class Operation {
  public:
    Operation() = default;
    Operation(CallId call, const Owner& owner) { begin(call, owner); }
    ~Operation() { end(); }
    Operation(const Operation&) = delete;
    Operation& operator=(const Operation&) = delete;

    // `owner`: a communicator that exists, or another object or nothing; then the operation has no place.
    void begin(CallId call, const Owner& owner) {
        if (on) [[unlikely]]
            take_entry(call, owner);
    }

    // It is a collective: the `number`-th, from 1 on, of those of its communicator that agree. `communicator` is the
    // same on all ranks, and no other's; 0 where no such number is known.
    void is_collective(std::int64_t communicator, std::uint64_t number);
    // It is a message. `peer` is a rank of its communicator or MPI_ANY_SOURCE.
    void is_message(int peer, int tag);
    void route(Carrier carrier, Reason reason, std::size_t bytes);
    void forget();  // it is part of another one
    void end() {
        if (entry_ != nullptr) [[unlikely]]
            end_begun();
    }

  private:
    void take_entry(CallId call, const Owner& owner);
    void end_begun();

    Entry* entry_ = nullptr;
};

}  // namespace swy::report::flight
