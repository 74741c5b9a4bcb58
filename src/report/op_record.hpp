// The record of one message or other operation, which goes to the report and the trace when the operation is done,
// is told to routes.hpp when its transport is chosen, and stands in the flight recorder from its begin on.
#pragma once

#include <chrono>
#include <string_view>

#include "report/flight.hpp"
#include "report/report.hpp"
#include "report/routes.hpp"
#include "report/trace.hpp"

namespace swy::report {

class OpRecord {
  public:
    // `owner` is named in the lines of routes.hpp and the flight recorder: a communicator that exists.
    OpRecord(CallId call, const Owner& owner) : call_(call), flight_(call, owner) { begin(owner); }
    // Of an operation on host memory, which neither of these has.
    explicit OpRecord(CallId call) : call_(call) { begin(Owner()); }

    // The flight recorder's part.
    flight::Operation& flight() { return flight_; }

    // MPI's constants for any rank and any tag are negative.
    void is_message(int peer, int tag) {
        flight_.is_message(peer, tag);
        subject_.peer = peer;
        subject_.tag = tag;
    }

    // Called before the data moves, once.
    void route(Carrier carrier, Reason reason, std::size_t bytes) {
        carrier_ = carrier;
        reason_ = reason;
        flight_.route(carrier, reason, bytes);
        if (tells_routes && carrier != Carrier::kHost) [[unlikely]] {
            print_route(call_, subject_.communicator, bytes, carrier, reason);
            range_.begin(name(call_), bytes, carrier, reason);
        }
    }
    void close(std::size_t bytes) {
        close(bytes, [] { return trace::ArrowEnd(); });
    }
    // The same for a message with an envelope; `arrow` returns its end of the arrow, and is called where a record is
    // made.
    template <typename Arrow>
    void close(std::size_t bytes, const Arrow& arrow) {
        range_.end();
        flight_.end();
        if (!enabled)
            return;
        subject_.arrow = arrow();
        tell_operation(call_, carrier_, reason_, bytes, start_, operation_, subject_);
    }
    // Records a call that the calling thread has been in since its begin.
    void close_call(std::size_t bytes) {
        range_.end();
        flight_.end();
        if (enabled)
            tell_call(call_, carrier_, reason_, bytes, start_);
    }
    // Ends the part `what` of the operation, which began when the operation did.
    void end_part(std::string_view what) const {
        if (report::trace::on)
            report::trace::end_part(what, start_, operation_);
    }

  private:
    void begin(const Owner& owner) {
        if (tells_routes || report::trace::on) [[unlikely]]
            subject_.communicator = place_of(owner);
        if (enabled)
            start_ = std::chrono::steady_clock::now();
        if (report::trace::on)
            operation_ = report::trace::draw_operation();
    }

    CallId call_;
    flight::Operation flight_;
    report::trace::Subject subject_;  // its communicator is in the lines of routes.hpp too
    ranges::OfOperation range_;
    Time start_;
    std::uint64_t operation_ = 0;  // its number in the trace
    Carrier carrier_ = Carrier::kHost;
    Reason reason_ = Reason::kNone;
};

}  // namespace swy::report
