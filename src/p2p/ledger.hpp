// What report and trace are told of one message or other operation when it is done.
#pragma once

#include <chrono>

#include "report/report.hpp"
#include "report/trace.hpp"

namespace swy::p2p {

class Ledger {
  public:
    Ledger() {
        if (report::enabled)
            start_ = std::chrono::steady_clock::now();
        if (report::trace::on)
            operation_ = report::trace::draw_operation();
    }
    void route(Carrier carrier, Reason reason) {
        carrier_ = carrier;
        reason_ = reason;
    }
    void close(CallId call, std::size_t bytes) const {
        if (report::enabled)
            report::tell_operation(call, carrier_, reason_, bytes, start_, operation_);
    }
    // The same of a call that the calling thread has been in all the time.
    void close_call(CallId call, std::size_t bytes) const {
        if (report::enabled)
            report::tell_call(call, carrier_, reason_, bytes, start_);
    }
    // What has been under way since the operation began is over.
    void end_part(std::string_view what) const {
        if (report::trace::on)
            report::trace::end_part(what, start_, operation_);
    }

  private:
    report::Time start_;
    std::uint64_t operation_ = 0;  // its number in the trace
    Carrier carrier_ = Carrier::kHost;
    Reason reason_ = Reason::kNone;
};

}  // namespace swy::p2p
