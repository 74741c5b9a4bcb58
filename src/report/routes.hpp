// The lines of SWITCHYARD_DEBUG: one for each call with device memory when its transport has been chosen,
// before the data moves. So the last line of a program that hangs is the call that hangs. Whoever chooses a transport
// tells it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "call/call.hpp"
#include "call/reason.hpp"

namespace swy::report {

extern bool
    tells_routes;  // from MPI_Init to MPI_Finalize of a process with SWITCHYARD_DEBUG; while false nothing is told

// Opens FOLDER/rank-N.log, or standard error for "". Returns "" or why the folder cannot be written; then it is
// standard error too. After MPI_Init of the real MPI.
std::string start_routes(const std::string& folder);
void stop_routes();

// Returns the name of a communicator or file that has not been freed, as a line has it: "MPI_COMM_WORLD (4
// ranks)"; "" for an owner without one. It lives as long as the process.
std::string_view place_of(const Owner& owner);

// Prints the line, unless the transport is the host's. Thread-safe.
void print_route(CallId call, std::string_view place, std::size_t bytes, Carrier carrier, Reason reason);

// The same, of a call that this thread is in.
inline void tell_route(CallId call, const Owner& owner, std::size_t bytes, Carrier carrier, Reason reason) {
    if (tells_routes && carrier != Carrier::kHost) [[unlikely]]
        print_route(call, place_of(owner), bytes, carrier, reason);
}

}  // namespace swy::report
