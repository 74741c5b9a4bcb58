// Facts of processes of this node, from /proc, and the clock that they share.
#pragma once

#include <cstdint>

namespace swy::report {

// Returns when a process began, in the kernel's own unit: with its number this tells it from every other process of
// this node. 0 where there is none of that number.
std::uint64_t process_began(int pid);

// Tells whether there is a process of that number which has not ended: one that its parent has not waited for yet has.
bool process_lives(int pid);

std::int64_t monotonic_nanoseconds();  // of CLOCK_MONOTONIC

}  // namespace swy::report
