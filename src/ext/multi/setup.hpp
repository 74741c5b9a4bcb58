// The set-up, by all ranks, of the NCCL communicator that a collective on several buffers needs, and what they tell
// each other after it when the call waits for it. Only collective.cpp uses this, under the engine's lock.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "comm/buffer_slots.hpp"
#include "comm/exchange.hpp"
#include "comm/setup.hpp"
#include "comm/state.hpp"
#include "ext/multi/call.hpp"
#include "ext/multi/facts.hpp"
#include "nccl/collectives.hpp"

namespace swy::multi {

// The tags that the ranks have drawn.
std::vector<int> tags(const std::vector<Fact>& facts, std::int32_t Fact::*which);

class Setup {
  public:
    // Begins the set-up, at the same position among the communicator's calls on all ranks.
    Setup(const Kept& kept, const SlotCounts& slots, comm::State& state, std::shared_ptr<comm::BufferSlots> comm,
          const std::vector<Fact>& facts);

    bool ended() const { return making_->done(); }
    Reason why() const;  // why NCCL does not serve the slots; once it has ended
    std::vector<nccl::Work> take_works() { return std::move(works_); }

    // Tells the other ranks whether this rank is ready for the call, now that the set-up has succeeded. Returns MPI's
    // code.
    int tell(comm::Exchange& exchange, bool ready);
    bool all_ready() const;                                  // valid when the exchange is done
    std::shared_ptr<void> memory() const { return ready_; }  // that the exchange uses

  private:
    const std::shared_ptr<comm::BufferSlots> comm_;
    std::vector<nccl::Work> works_;
    std::shared_ptr<comm::Setup> making_;
    const std::shared_ptr<std::vector<std::byte>> ready_ = std::make_shared<std::vector<std::byte>>();  // by rank
};

}  // namespace swy::multi
