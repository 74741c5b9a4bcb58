#include "multi/setup.hpp"

#include <algorithm>
#include <utility>

#include "multi/tests.hpp"
#include "request/engine.hpp"

namespace swy::multi {

std::vector<int> tags(const std::vector<Fact>& facts, std::int32_t Fact::*which) {
    std::vector<int> all;
    for (const Fact& fact : facts)
        all.push_back(fact.*which);
    return all;
}

Setup::Setup(const Kept& kept, const PlaceCounts& places, comm::State& state, std::shared_ptr<comm::Places> comm,
             const std::vector<Fact>& facts) {
    LocalTest now(kept, places, state.rank);
    attempt_ = std::make_shared<comm::Attempt>(
        kept.call().id, state, std::move(comm),
        comm::Attempt::Asked{now.obstacle, now.locations(), places.counts(), tags(facts, &Fact::attempt_tag)});
    works_ = std::move(now.works);
    request::add(attempt_);
}

int Setup::tell(comm::Exchange& exchange, bool ready) {
    mine_ = std::byte{ready};
    told_.resize(static_cast<std::size_t>(exchange.size()));
    return exchange.begin_gather(&mine_, 1, std::vector<std::size_t>(told_.size(), 1), told_.data());
}

bool Setup::all_ready() const {
    return std::find(told_.begin(), told_.end(), std::byte{0}) == told_.end();
}

}  // namespace swy::multi
