// Routes as they are chosen: which transport each call with device memory takes, told when it has been chosen, before
// the data moves, by whoever chooses it. SWITCHYARD_DEBUG prints a line for each, so that the last line of a program
// that hangs is the call that hangs; a tool of NVTX gets a range that begins with it (ranges.hpp); and the flight
// recorder has it (flight.hpp).
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "call/call.hpp"
#include "call/reason.hpp"
#include "report/flight.hpp"
#include "report/ranges.hpp"
#include "settings/settings.hpp"

namespace swy::report {

extern bool tells_routes;  // from MPI_Init to MPI_Finalize of a process in which lines or ranges are wanted

inline bool wants_routes() {
    return tells_routes || flight::on;
}

// Starts the lines, of the calls that `lines` says, to FOLDER/rank-N.log or to standard error for "", and the ranges
// where a tool asks for them. Returns "" or why the folder cannot be written; then it is standard error too. After
// MPI_Init of the real MPI.
std::string start_routes(settings::DebugLines lines, const std::string& folder);
void stop_routes();

// Returns the name of a communicator or file that has not been freed, as a line has it: "MPI_COMM_WORLD (4 ranks)"; ""
// for an owner without one, and where neither lines nor a trace are wanted. It lives as long as the process.
std::string_view place_of(const Owner& owner);

// Prints the line, where lines of such calls are wanted, unless the transport is the host's. Thread-safe.
void print_route(CallId call, std::string_view place, std::size_t bytes, Carrier carrier, Reason reason);

// The route of a call that this thread is in. The call's range ends with the object, and so does its entry in the
// flight recorder, unless the caller has `begun` one.
class RouteOfCall {
  public:
    RouteOfCall() = default;
    RouteOfCall(CallId call, const Owner& owner, std::size_t bytes, Carrier carrier, Reason reason,
                flight::Operation* begun)
        : range_(name(call), bytes, carrier, reason) {
        print_route(call, place_of(owner), bytes, carrier, reason);
        if (begun == nullptr)
            flight_.begin(call, owner);
        (begun != nullptr ? *begun : flight_).route(carrier, reason, bytes);
    }

  private:
    ranges::InThread range_;
    flight::Operation flight_;
};

[[nodiscard]] inline RouteOfCall tell_route(CallId call, const Owner& owner, std::size_t bytes, Carrier carrier,
                                            Reason reason, flight::Operation* begun = nullptr) {
    if (carrier == Carrier::kHost && begun != nullptr)
        begun->route(carrier, reason, bytes);
    if (carrier == Carrier::kHost || !wants_routes()) [[likely]]
        return {};
    return {call, owner, bytes, carrier, reason, begun};
}

}  // namespace swy::report
