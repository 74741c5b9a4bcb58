#include "vgpu/nccl/executor.hpp"

#include <algorithm>
#include <chrono>
#include <set>

#include <sched.h>

#include "vgpu/nccl/deadlock.hpp"
#include "vgpu/nccl/debug.hpp"
#include "vgpu/nccl/settings.hpp"

namespace vgpu::nccl {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr int kYields = 30;                // before sleeping: processors are few and shared
constexpr milliseconds kSearchAfter{100};  // without any movement; also between searches
constexpr milliseconds kNoteAfter{5000};

class Execution {
  public:
    Execution(Family& family, Step& step)
        : family_(family), step_(step), strict_(settings().strict), search_(family, step, family.next_run()) {}

    Outcome run() {
        begin();
        const Outcome outcome = loop();
        for (int peer = 0; peer < family_.ranks(); ++peer)
            if (Link* link = family_.link(peer))
                link->clear();
        return outcome;
    }

  private:
    void begin() {
        std::set<int> peers;
        for (const Exchange& exchange : step_.exchanges)
            peers.insert(exchange.peer);
        // Other connections are read only for the probes of a search, so that idle ones cost nothing.
        for (int peer = 0; peer < family_.ranks(); ++peer)
            if (family_.link(peer) != nullptr && (strict_ || peers.count(peer) != 0))
                links_.push_back(family_.link(peer));
        step();  // handles frames that arrived since the last operation, such as receives of buffered sends
        for (Exchange& exchange : step_.exchanges)
            family_.link(exchange.peer)->begin(exchange, strict_, settings().buffer);
    }

    Outcome loop() {
        Clock::time_point moved = Clock::now();
        Clock::time_point searched = moved;
        for (int idle = 0; !done();) {
            if (family_.halted())
                return Outcome::Halted;
            if (family_.ended())
                return Outcome::Failed;
            const std::uint32_t seen = family_.bell().rung.load();
            const bool moved_now = step();
            if (heard_failure() || mismatch())
                return Outcome::Failed;
            take_probes();
            if (moved_now) {
                idle = 0;
                moved = searched = Clock::now();
                search_.forget();
                continue;
            }
            if (++idle <= kYields) {
                sched_yield();
                continue;
            }
            const Clock::time_point now = Clock::now();
            if (strict_ && now - searched >= kSearchAfter) {
                searched = now;
                if (found(search_.search()))
                    return Outcome::Failed;
            }
            note(now - moved);
            family_.bell().sleep(seen);
        }
        return Outcome::Done;
    }

    bool done() const {
        return (!step_.reducer || step_.reducer->done()) &&
               std::all_of(step_.exchanges.begin(), step_.exchanges.end(),
                           [](const Exchange& e) { return e.done(); }) &&
               std::all_of(links_.begin(), links_.end(), [](const Link* link) { return link->done(); });
    }

    bool step() {
        bool moved = false;
        for (Link* link : links_)
            moved = link->step(messages_) || moved;
        return moved;
    }

    bool heard_failure() {
        const auto failure = std::find_if(messages_.begin(), messages_.end(),
                                          [](const Message& m) { return m.frame == Frame::Failure; });
        if (failure == messages_.end())
            return false;
        warn("%s", failure->body.c_str());
        family_.fail(ncclInvalidUsage, true);
        return true;
    }

    void take_probes() {
        for (const Message& message : messages_)
            if (message.frame == Frame::Probe)
                search_.arrived(message.body);
        messages_.clear();
    }

    bool mismatch() {
        if (!strict_)
            return false;
        for (const Exchange& exchange : step_.exchanges)
            if (exchange.conflict && !exchange.matched)
                return found("rank " + std::to_string(exchange.mine.rank) + " calls " + describe(exchange.mine) +
                             " but rank " + std::to_string(exchange.conflict->rank) + " calls " +
                             describe(*exchange.conflict));
        return false;
    }

    bool found(const std::string& what) {
        if (what.empty())
            return false;
        report(what);
        warn("%s", what.c_str());
        std::vector<Message> dropped;
        for (int peer = 0; peer < family_.ranks(); ++peer)
            if (Link* link = family_.link(peer)) {
                link->send_message(Frame::Failure, what);
                link->step(dropped);
            }
        family_.fail(ncclInvalidUsage, true);
        return true;
    }

    // Without VGPU_STRICT a mismatch hangs, as on a GPU; a note on standard error says why.
    void note(Clock::duration waited) {
        if (strict_ || noted_ || waited < kNoteAfter)
            return;
        for (const Exchange& exchange : step_.exchanges) {
            const Call* other = exchange.conflict ? &*exchange.conflict : family_.link(exchange.peer)->unanswered();
            if (exchange.matched || other == nullptr)
                continue;
            noted_ = true;
            report("rank " + std::to_string(exchange.mine.rank) + " waits in " + describe(exchange.mine) +
                   " for rank " + std::to_string(other->rank) + ", which is in " + describe(*other) +
                   "; a GPU would hang here (VGPU_STRICT=1 makes this an error)");
            return;
        }
    }

    Family& family_;
    Step& step_;
    const bool strict_;
    DeadlockSearch search_;
    std::vector<Link*> links_;
    std::vector<Message> messages_;
    bool noted_ = false;
};

}  // namespace

Outcome execute(Family& family, Step& step) {
    return Execution(family, step).run();
}

Outcome wait_for_halt(Family& family) {
    while (!family.halted()) {
        const std::uint32_t seen = family.bell().rung.load();
        if (!family.halted())
            family.bell().sleep(seen);
    }
    return Outcome::Halted;
}

}  // namespace vgpu::nccl
