// Facts of processes of this node, from /proc, and the clocks that they share.
#pragma once

#include <cstdint>
#include <string>

namespace swy::report {

// Returns when a process began, in the kernel's own unit: with its number this tells it from every other process of
// this node. 0 where there is none of that number.
std::uint64_t process_began(int pid);

// Tells whether there is a process of that number which has not ended: one that its parent has not waited for yet has.
bool process_lives(int pid);

std::string command_line_of(int pid);  // as a shell reads it; "" where there is no process of that number

std::string date_before(double seconds);  // so long before now: ISO 8601, local time with its zone

std::int64_t monotonic_nanoseconds();  // of CLOCK_MONOTONIC

}  // namespace swy::report
