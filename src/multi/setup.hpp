// The attempt of all ranks to get the NCCL communicator that a collective on several buffers needs, and what they tell
// each other after it when the call waits for it. For collective.cpp alone, under the engine's lock.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "carrier/nccl/collectives.hpp"
#include "comm/attempt.hpp"
#include "comm/exchange.hpp"
#include "comm/places.hpp"
#include "comm/state.hpp"
#include "multi/call.hpp"
#include "multi/facts.hpp"

namespace swy::multi {

// What each rank has drawn.
std::vector<int> tags(const std::vector<Fact>& facts, std::int32_t Fact::*which);

class Setup {
  public:
    // Begins the attempt, in the same place of the calls' order on all ranks.
    Setup(const Kept& kept, const PlaceCounts& places, comm::State& state, std::shared_ptr<comm::Places> comm,
          const std::vector<Fact>& facts);

    const comm::Attempt& attempt() const { return *attempt_; }
    std::vector<carrier::nccl::Work> take_works() { return std::move(works_); }

    // Is this rank ready for the call, now that the attempt has succeeded? MPI's code.
    int tell(comm::Exchange& exchange, bool ready);
    bool all_ready() const;  // when the exchange is done

  private:
    std::vector<carrier::nccl::Work> works_;
    std::shared_ptr<comm::Attempt> attempt_;
    std::vector<std::byte> told_;
    std::byte mine_{};
};

}  // namespace swy::multi
