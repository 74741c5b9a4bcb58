#include "vgpu/nccl/deadlock.hpp"

#include <algorithm>
#include <cstring>

namespace vgpu::nccl {
namespace {

constexpr std::size_t kLongest = 64;  // hops

}  // namespace

std::string DeadlockSearch::Probe::pack() const {
    std::string bytes(reinterpret_cast<const char*>(&run), sizeof run);
    return bytes.append(reinterpret_cast<const char*>(hops.data()), hops.size() * sizeof(Hop));
}

DeadlockSearch::Probe DeadlockSearch::Probe::unpack(const std::string& bytes) {
    Probe probe;
    std::memcpy(&probe.run, bytes.data(), sizeof probe.run);
    probe.hops.resize((bytes.size() - sizeof probe.run) / sizeof(Hop));
    std::memcpy(static_cast<void*>(probe.hops.data()), bytes.data() + sizeof probe.run,
                probe.hops.size() * sizeof(Hop));
    return probe;
}

std::string DeadlockSearch::search() {
    for (const std::string& bytes : std::exchange(probes_, {})) {
        Probe probe = Probe::unpack(bytes);
        if (probe.hops.empty() || !waited_for_by(probe.hops.back().rank))
            continue;
        const Hop& first = probe.hops.front();
        if (first.rank == family_.self()) {
            if (probe.run == run_)
                return describe(probe);
        } else if (probe.hops.size() < kLongest && passed_.emplace(first.rank, probe.run).second) {
            pass_on(std::move(probe));
        }
    }
    passed_.clear();  // those who still wait ask again
    pass_on({run_, {}});
    return {};
}

// Returns whether the peer really waits for this rank, as its probe says: its call has no answer here, or its payload
// cannot move.
bool DeadlockSearch::waited_for_by(int peer) const {
    if (family_.link(peer)->unanswered() != nullptr)
        return true;
    return std::any_of(step_.exchanges.begin(), step_.exchanges.end(),
                       [&](const Exchange& e) { return e.peer == peer && e.matched && !e.done(); });
}

void DeadlockSearch::pass_on(Probe probe) {
    std::set<int> probed;
    for (const Exchange& exchange : step_.exchanges) {
        // Ranks whose calls fit wait together rather than for each other: a circle begins with calls that do not.
        if (exchange.done() || (probe.hops.empty() && exchange.matched) || !probed.insert(exchange.peer).second)
            continue;
        Probe next = probe;
        next.hops.push_back({family_.self(), exchange.mine});
        family_.link(exchange.peer)->send_message(Frame::Probe, next.pack());
    }
}

std::string DeadlockSearch::describe(const Probe& probe) {
    std::string text = "these calls wait for each other: ";
    for (std::size_t i = 0; i < probe.hops.size(); ++i)
        text += (i == 0 ? "rank " : ", rank ") + std::to_string(probe.hops[i].call.rank) + " in " +
                nccl::describe(probe.hops[i].call);
    return text;
}

}  // namespace vgpu::nccl
