// What the report is told of one message when its operation is done.
#pragma once

#include <chrono>

#include "report/report.hpp"

namespace swy::p2p {

class Ledger {
  public:
    Ledger() {
        if (report::enabled)
            start_ = std::chrono::steady_clock::now();
    }
    void route(Carrier carrier, Reason reason) {
        carrier_ = carrier;
        reason_ = reason;
    }
    void close(CallId call, std::size_t bytes) const {
        if (!report::enabled)
            return;
        const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start_;
        report::add(call, carrier_, reason_, bytes, took.count());
    }

  private:
    std::chrono::steady_clock::time_point start_;
    Carrier carrier_ = Carrier::kHost;
    Reason reason_ = Reason::kNone;
};

}  // namespace swy::p2p
