// One set-up of the NCCL communicator of a communicator's buffer slots, as an operation of the engine that keeps nobody
// waiting: a call that needs it looks whether it is done. For buffer_slots.hpp and the extension's collectives
// (src/ext/multi), which see to it that all ranks start the same set-ups in the same order, one after the other.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "call/reason.hpp"
#include "comm/buffer_slots.hpp"
#include "comm/exchange.hpp"
#include "comm/setup_facts.hpp"
#include "device/device.hpp"
#include "nccl/communicator.hpp"
#include "progress/operation.hpp"
#include "progress/wait.hpp"

namespace swy::comm {

class SlotsSetup final : public progress::Operation {
  public:
    // This process's devices, and what keeps its slots from NCCL; the number of slots of each rank; each rank's tag.
    struct Asked {
        Reason obstacle = Reason::kNone;
        std::vector<device::Location> devices;
        std::vector<int> numbers, tags;
    };
    SlotsSetup(CallId call, comm::State& state, std::shared_ptr<BufferSlots> slots, Asked asked);
    ~SlotsSetup() override;

    bool step() override;

    // Once done: why NCCL does not serve these slots; kNone: it does. The same on all ranks unless MPI has failed.
    Reason why() const { return why_; }

  private:
    enum class Step : std::uint8_t { kNew, kFacts, kProposal, kTaking, kMaking, kTelling };
    enum class Result : std::uint8_t { kUnknown, kMade, kFailed };
    struct Head {
        std::uint8_t obstacle = 0, needs_setup = 0;
    };
    struct Proposal {  // an idle communicator's id, or a new group's
        std::uint64_t reuse = 0, drawn = 0;
        nccl::UniqueId unique{};
    };

    bool advance();
    int tell_facts();
    int settle_facts();
    int propose(bool may_reuse);
    int take_proposal();
    int settle_taking();
    int make();
    bool step_making();
    void settle_making();
    int tell_result(Result result);
    int rank() const { return exchange_.rank(); }
    int end(Reason why);

    comm::State& state_;
    const std::shared_ptr<BufferSlots> slots_;
    const Asked asked_;
    Exchange exchange_;
    progress::Deadline deadline_;
    Step step_ = Step::kNew;
    Reason why_ = Reason::kNone;

    // The memory that MPI sends from and receives into.
    struct Memory {
        std::vector<std::byte> mine, all;
        Proposal proposal;
        Result result = Result::kUnknown;
        std::vector<Result> results;
    };
    std::unique_ptr<Memory> memory_ = std::make_unique<Memory>();

    std::vector<Fact> facts_;
    nccl::Group group_;
    int proposer_ = 0;
    std::shared_ptr<nccl::Communicator> found_;
};

}  // namespace swy::comm
