#include "ext/multi/setup.hpp"

#include <algorithm>
#include <utility>

#include "ext/multi/tests.hpp"
#include "progress/engine.hpp"

namespace swy::multi {

std::vector<int> tags(const std::vector<Fact>& facts, std::int32_t Fact::*which) {
    std::vector<int> all;
    for (const Fact& fact : facts)
        all.push_back(fact.*which);
    return all;
}

Setup::Setup(const Kept& kept, const SlotCounts& slots, comm::State& state, std::shared_ptr<comm::BufferSlots> comm,
             const std::vector<Fact>& facts) {
    LocalTest now(kept, slots, state.rank);
    attempt_ = std::make_shared<comm::SlotsSetup>(
        kept.call().id, state, std::move(comm),
        comm::SlotsSetup::Asked{now.obstacle, now.locations(), slots.counts(), tags(facts, &Fact::attempt_tag)});
    works_ = std::move(now.works);
    progress::add(attempt_);
}

int Setup::tell(comm::Exchange& exchange, bool ready) {
    Told& told = *told_;
    told.mine = std::byte{ready};
    told.all.resize(static_cast<std::size_t>(exchange.size()));
    return exchange.begin_gather(&told.mine, 1, std::vector<std::size_t>(told.all.size(), 1), told.all.data());
}

bool Setup::all_ready() const {
    return std::find(told_->all.begin(), told_->all.end(), std::byte{0}) == told_->all.end();
}

}  // namespace swy::multi
