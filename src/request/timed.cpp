#include "request/timed.hpp"

#include <chrono>

#include "call/depth.hpp"
#include "call/replace.hpp"
#include "real.hpp"
#include "report/report.hpp"
#include "report/trace.hpp"
#include "request/complete.hpp"

namespace swy::request::complete {

constinit Calls calls{};

namespace {

// Counts a call that the program is in from construction to destruction, which an exception of its error handler may
// bring about.
class InCall {
  public:
    InCall(CallId call, bool waits) : call_(call), waits_(waits) {}
    ~InCall() {
        if (!report::covers_host_calls)  // the program makes it after the report
            return;
        const auto time = std::chrono::steady_clock::now() - begin_;
        if (waits_)
            report::tell_call(call_, Carrier::kHost, Reason::kNone, 0, begin_);
        else
            report::add(call_, Carrier::kHost, Reason::kNone, 0, std::chrono::duration<double>(time).count());
    }
    InCall(const InCall&) = delete;
    InCall& operator=(const InCall&) = delete;

  private:
    const CallId call_;
    const bool waits_;
    const report::Time begin_ = std::chrono::steady_clock::now();
};

// Those inside of another MPI call are MPI's own.
template <auto kCall, CallId kId, typename... A>
int waited(A... arguments) {
    if (call::inside())
        return kCall(arguments...);
    const InCall here(kId, true);
    return kCall(arguments...);
}

// A program that polls makes far more of these than a trace has room for.
template <auto kCall, CallId kId, typename... A>
int tested(A... arguments) {
    if (call::inside())
        return kCall(arguments...);
    const InCall here(kId, false);
    return kCall(arguments...);
}

decltype(real::Barrier) real_barrier = nullptr;

int barrier(MPI_Comm comm) {
    if (call::inside())
        return real_barrier(comm);
    const InCall here(CallId::kBarrier, true);
    return real_barrier(comm);
}

}  // namespace

void time_calls() {
    progress::known_requests.fetch_add(1, std::memory_order_relaxed);
    calls = {.wait = waited<wait, CallId::kWait>,
             .waitany = waited<waitany, CallId::kWaitany>,
             .waitall = waited<waitall, CallId::kWaitall>,
             .waitsome = waited<waitsome, CallId::kWaitsome>,
             .test = tested<test, CallId::kTest>,
             .testany = tested<testany, CallId::kTestany>,
             .testall = tested<testall, CallId::kTestall>,
             .testsome = tested<testsome, CallId::kTestsome>};
    // What has taken the real function's place before (comm/gates.hpp) keeps it.
    const bool replaced = real::original<real::Barrier> != nullptr;
    real_barrier = replaced ? real::Barrier : reinterpret_cast<decltype(real_barrier)>(real::find("PMPI_Barrier"));
    if (real_barrier != nullptr)
        __atomic_store_n(&real::Barrier, &barrier, __ATOMIC_RELEASE);
}

}  // namespace swy::request::complete
