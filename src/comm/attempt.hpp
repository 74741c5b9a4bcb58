// One attempt of a communicator's ranks to get the NCCL communicator of their places, as an operation of the engine
// that keeps nobody waiting: who needs it looks whether it is done. For places.cpp and the extension's collectives
// (src/multi), which see to it that all ranks begin the same attempts in the same order, one after the other.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "carrier/nccl/local_members.hpp"
#include "comm/exchange.hpp"
#include "comm/making.hpp"
#include "comm/places.hpp"
#include "device/device.hpp"
#include "request/operation.hpp"
#include "request/wait.hpp"
#include "route/reason.hpp"

namespace swy::comm {

class Attempt final : public request::Operation {
  public:
    // This process's devices and what keeps its places from NCCL; how many places each rank has; each rank's tag.
    struct Asked {
        Reason obstacle = Reason::kNone;
        std::vector<device::Location> devices;
        std::vector<int> numbers, tags;
    };
    Attempt(CallId call, comm::State& state, std::shared_ptr<Places> places, Asked asked);
    ~Attempt() override;

    bool step() override;

    // Once done, the same on all ranks unless MPI has failed: why NCCL does not serve these places, kNone: it does.
    Reason why() const { return why_; }

  private:
    enum class Step : std::uint8_t { kNew, kFacts, kProposal, kTaking, kMaking, kTelling };
    enum class Result : std::uint8_t { kUnknown, kMade, kFailed };
    struct Head {
        std::uint8_t obstacle = 0, needs_setup = 0;
    };
    struct Proposal {  // an idle communicator's id, or a new group's
        std::uint64_t reuse = 0, drawn = 0;
        carrier::nccl::UniqueId unique{};
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
    const std::shared_ptr<Places> places_;
    const Asked asked_;
    Exchange exchange_;
    const request::Deadline deadline_;
    Step step_ = Step::kNew;
    Reason why_ = Reason::kNone;

    // What MPI's messages are in.
    std::vector<std::byte> mine_, all_;
    Proposal proposal_;
    Result result_ = Result::kUnknown;
    std::vector<Result> results_;

    std::vector<Fact> facts_;
    carrier::nccl::Group group_;
    int proposer_ = 0;
    std::shared_ptr<carrier::nccl::LocalMembers> found_;
};

}  // namespace swy::comm
