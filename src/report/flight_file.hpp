// The file in shared memory in which a process keeps its last operations and what it has counted for the report, for
// `switchyard status`: facts, the counters, and a ring of entries. It outlives a process that does not come to
// MPI_Finalize. The library writes it (flight.cpp); flights.cpp reads it, while it is written or later.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "report/counter_table.hpp"

namespace swy::report::flight {

constexpr std::string_view kFolder = "/dev/shm";
constexpr std::string_view kPrefix = "switchyard-";  // then the user's number, a dash and the process's
constexpr std::size_t kEntries = 256;
constexpr std::uint64_t kMagic = 0x3474'6867'696c'6673;  // one version of this layout

using Nanoseconds = std::int64_t;  // of CLOCK_MONOTONIC, which the node's processes share; 0 is none

constexpr std::int32_t kNone = -1, kAny = -2;  // in place of a rank or a tag, which MPI's constants are not everywhere

// One operation: a call with device memory, one whose ranks agree on its transport, or MPI_Finalize. The writer fills
// all fields before `number`, and changes `route`, `carrier`, `reason`, `bytes` and `end` later, each once.
struct Entry {
    enum Use : std::uint32_t { kFree, kTaken };

    std::atomic<std::uint32_t> use;     // kTaken until it has ended: only then may another operation have the entry
    std::atomic<std::uint64_t> number;  // of the process's operations, from 1 on; 0 while it is written
    std::atomic<Nanoseconds> begin, route, end;
    std::atomic<std::uint64_t> bytes;           // of the payload on this rank, once routed
    std::atomic<std::int64_t> communicator;     // the same on all its ranks; 0 where that is not known
    std::atomic<std::uint64_t> collective;      // which one of those on the communicator that agree, from 1 on; 0 none
    std::atomic<std::int32_t> peer, tag;        // of a message; kNone or kAny
    std::atomic<std::uint16_t> call;            // CallId
    std::atomic<std::uint8_t> carrier, reason;  // once routed
    char place[52];                             // the communicator's name
    std::int32_t place_ranks;                   // its size; 0 where the operation has none
};

struct File {
    std::uint64_t magic;
    char version[24];  // of Switchyard: calls, transports and reasons are numbers of this version
    std::int32_t pid;
    std::uint64_t pid_began;  // field 22 of /proc/PID/stat: tells whether the number is another process's now
    std::int32_t rank, ranks;
    Nanoseconds began;  // when MPI_Init came to its end
    char host[64], job[64], program[128];
    char mpi[64], nccl[16], driver[256], device[96];  // as the report has them; the last three once they are known
    std::int32_t counts;                              // 1 where calls are counted: a report or a trace is wanted
    // Of the first rank of the job on this host: when it was last said what the ranks are in, by a watchdog or
    // `switchyard ended`, and 1 once that has said it of an end.
    std::atomic<Nanoseconds> told;
    std::atomic<std::int32_t> end_told;
    // When the process came to its end without MPI_Finalize, 0 until then, and what ended it, as last_words.hpp has it.
    // Of a process that SIGKILL or _exit ended there is neither.
    std::atomic<Nanoseconds> ends;
    char ended_by[16];
    // Of a copy that `switchyard status --save` has made: when, and whether the process lived then. 0 in the original.
    Nanoseconds saved;
    std::int32_t lived;
    std::atomic<std::uint64_t> begun;       // operations so far
    std::atomic<std::uint64_t> unrecorded;  // of these, those for which there was no free entry
    CounterTable counters;
    Entry entries[kEntries];
};

static_assert(std::atomic<std::uint64_t>::is_always_lock_free && std::atomic<std::uint8_t>::is_always_lock_free);

}  // namespace swy::report::flight
