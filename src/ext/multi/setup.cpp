#include "ext/multi/setup.hpp"

#include <algorithm>
#include <utility>

#include "ext/multi/facts.hpp"
#include "progress/engine.hpp"

namespace swy::multi {

std::vector<int> tags(const std::vector<Fact>& facts, std::int32_t Fact::*which) {
    std::vector<int> all;
    for (const Fact& fact : facts)
        all.push_back(fact.*which);
    return all;
}

Setup::Setup(const Kept& kept, const SlotCounts& slots, comm::State& state, std::shared_ptr<comm::BufferSlots> comm,
             const std::vector<Fact>& facts)
    : comm_(std::move(comm)) {
    LocalTest now(kept, slots, state.rank);
    making_ = std::make_shared<comm::Setup>(
        state,
        comm::Setup::Plan{.devices = now.locations(),
                          .numbers = slots.counts(),
                          .tags = tags(facts, &Fact::attempt_tag),
                          .obstacle = now.obstacle,
                          .needed = comm_->needs_setup(now.ordinals()),
                          .before = comm_->nccl},
        [comm = comm_, devices = now.ordinals()](comm::Setup::Result& result) { comm->end_setup(devices, result); });
    works_ = std::move(now.works);
    ++comm_->begun;
    progress::add(making_);
}

Reason Setup::why() const {
    const comm::Setup::Result& result = making_->result();
    return result.changed || result.why != Reason::kNone ? result.why : comm_->obstacle;
}

int Setup::tell(comm::Exchange& exchange, bool ready) {
    ready_->resize(static_cast<std::size_t>(exchange.size()));
    (*ready_)[static_cast<std::size_t>(exchange.rank())] = std::byte{ready};
    return exchange.begin_round(std::vector<std::size_t>(ready_->size(), 1), *ready_);
}

bool Setup::all_ready() const {
    return std::find(ready_->begin(), ready_->end(), std::byte{0}) == ready_->end();
}

}  // namespace swy::multi
