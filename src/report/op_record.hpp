// The record of one message or other operation, which goes to the report and the trace when the operation is done,
// and is told to routes.hpp when its transport is chosen.
#pragma once

#include <chrono>
#include <string_view>

#include "report/report.hpp"
#include "report/routes.hpp"
#include "report/trace.hpp"

namespace swy::report {

class OpRecord {
  public:
    // `owner` is named in the lines of routes.hpp: a communicator that exists, or nothing.
    explicit OpRecord(CallId call, const Owner& owner = Owner()) : call_(call) {
        if (tells_routes) [[unlikely]]
            place_ = place_of(owner);
        if (enabled)
            start_ = std::chrono::steady_clock::now();
        if (report::trace::on)
            operation_ = report::trace::draw_operation();
    }
    // Called before the data moves, once.
    void route(Carrier carrier, Reason reason, std::size_t bytes) {
        carrier_ = carrier;
        reason_ = reason;
        if (tells_routes && carrier != Carrier::kHost) [[unlikely]] {
            print_route(call_, place_, bytes, carrier, reason);
            range_.begin(name(call_), bytes, carrier, reason);
        }
    }
    void close(std::size_t bytes) {
        range_.end();
        if (enabled)
            tell_operation(call_, carrier_, reason_, bytes, start_, operation_);
    }
    // Records a call that the calling thread has been in since its begin.
    void close_call(std::size_t bytes) {
        range_.end();
        if (enabled)
            tell_call(call_, carrier_, reason_, bytes, start_);
    }
    // Ends the part `what` of the operation, which began when the operation did.
    void end_part(std::string_view what) const {
        if (report::trace::on)
            report::trace::end_part(what, start_, operation_);
    }

  private:
    CallId call_;
    std::string_view place_;  // in the lines of routes.hpp
    ranges::OfOperation range_;
    Time start_;
    std::uint64_t operation_ = 0;  // its number in the trace
    Carrier carrier_ = Carrier::kHost;
    Reason reason_ = Reason::kNone;
};

}  // namespace swy::report
