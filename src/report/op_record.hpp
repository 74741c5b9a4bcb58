// The record of one message or other operation, which goes to the report and the trace when the operation is done.
#pragma once

#include <chrono>

#include "report/report.hpp"
#include "report/trace.hpp"

namespace swy::report {

class OpRecord {
  public:
    OpRecord() {
        if (enabled)
            start_ = std::chrono::steady_clock::now();
        if (report::trace::on)
            operation_ = report::trace::draw_operation();
    }
    void route(Carrier carrier, Reason reason) {
        carrier_ = carrier;
        reason_ = reason;
    }
    void close(CallId call, std::size_t bytes) const {
        if (enabled)
            tell_operation(call, carrier_, reason_, bytes, start_, operation_);
    }
    // Records a call that the calling thread has been in since its begin.
    void close_call(CallId call, std::size_t bytes) const {
        if (enabled)
            tell_call(call, carrier_, reason_, bytes, start_);
    }
    // Ends the part `what` of the operation, which began when the operation did.
    void end_part(std::string_view what) const {
        if (report::trace::on)
            report::trace::end_part(what, start_, operation_);
    }

  private:
    Time start_;
    std::uint64_t operation_ = 0;  // its number in the trace
    Carrier carrier_ = Carrier::kHost;
    Reason reason_ = Reason::kNone;
};

}  // namespace swy::report
