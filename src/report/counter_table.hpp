// The counters behind the report, as they lie in memory: a table of its own in each process, in the flight recorder's
// file where there is one (flight_file.hpp), so that they outlive a process that does not come to MPI_Finalize.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace swy::report {

// The classes of size in which calls are counted: each but the last has the sizes below its limit that the one before
// has not.
constexpr std::array<std::uint64_t, 5> kSizeLimits = {256, 4096, 64 << 10, 1 << 20, 16 << 20};
constexpr std::size_t kSizeClasses = kSizeLimits.size() + 1;
constexpr std::size_t size_class(std::uint64_t bytes) {
    std::size_t found = 0;
    while (found < kSizeLimits.size() && bytes >= kSizeLimits[found])
        ++found;
    return found;
}

// The calls of one name that took one transport for one reason.
struct Counter {
    std::atomic<std::uint32_t> cell;  // its Key and one; 0: not used yet
    std::atomic<std::uint64_t> bytes, nanoseconds;
    std::array<std::atomic<std::uint64_t>, kSizeClasses> counts;  // by size
};

// A hash table that is never emptied: programs use some dozens of the many cells that are possible. What finds no room
// is not counted.
struct CounterTable {
    static constexpr std::size_t kCounters = 1024;
    std::array<Counter, kCounters> counters;
};

}  // namespace swy::report
