#include "progress/stall.hpp"

#include <cstdio>
#include <new>
#include <utility>

#include "progress/engine.hpp"
#include "report/watchdog.hpp"
#include "settings/settings.hpp"

namespace swy::progress {

constinit thread_local Waiting* Waiting::innermost = nullptr;

void Waiting::turn() {
    constexpr unsigned kShortWait = 4;  // turns, in which a look at the clock would cost most
    constexpr int kGrowth = 5;          // from one line to the next
    constexpr int kShare = 10;          // of the time, after which a wait of which nothing was said is looked at again
    const double stall = settings::values().stall;
    if (++turns_ < kShortWait || stall <= 0 || held_here())
        return;
    const Clock::time_point now = Clock::now();
    report::watchdog::looked_after.store(std::chrono::nanoseconds(now.time_since_epoch()).count(),
                                         std::memory_order_relaxed);
    if (since_ == Clock::time_point{}) {
        since_ = now;
        next_ = now + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(stall));
    }
    if (now < next_)
        return;
    const auto waited = next_ - since_;
    const bool said = say(std::chrono::duration<double>(now - since_).count());
    next_ = said ? since_ + kGrowth * waited : now + waited / kShare;
}

// Describing may run MPI's progress, and so come back here.
bool Waiting::say(double seconds) const {
    Waiting* const here = std::exchange(innermost, nullptr);
    bool said = true;
    try {
        std::string text = clause();
        for (const Waiting* outer = text.empty() ? nullptr : outer_; outer != nullptr; outer = outer->outer_)
            text = outer->clause() + ": " + text;
        said = !text.empty();
        if (said)
            std::fprintf(stderr, "switchyard: %s. This has lasted %.1f s so far (SWITCHYARD_STALL)\n", text.c_str(),
                         seconds);
    } catch (const std::bad_alloc&) {
        std::fprintf(stderr, "switchyard: a wait has lasted %.1f s so far (SWITCHYARD_STALL)\n", seconds);
    }
    innermost = here;
    return said;
}

}  // namespace swy::progress
