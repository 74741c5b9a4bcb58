// The roll call after an agreement that some rank may have given up. A rank may come just when another one gives up,
// and have all votes before it has that one's message. It must not go on alone. The votes have their times, so all
// ranks that have them know alike whether that may be so: where the last rank came late by half of what ranks wait, or
// more, they call the roll, at which who has given up is not there. Clocks that differ cost the roll call, and no more.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "call/hash.hpp"
#include "coll/agreement.hpp"
#include "coll/agreement_transport.hpp"
#include "comm/job_messages.hpp"
#include "comm/state.hpp"
#include "progress/wait.hpp"

namespace swy::coll {

// Must ranks that have all votes call the roll? `spread` is the time in milliseconds between the first vote and the
// last one.
bool some_came_late(std::int64_t spread);

// What the votes' times are told by: milliseconds of a clock that all ranks have. 0 where no rank gives up.
std::int64_t time_of_vote();

// Each rank tells rank 0 by a message of the job that it is here, with an answer of some numbers, and rank 0 tells all
// the greatest of each. Such messages are no calls on the communicator: ranks that have given the agreement up, and
// send none, are in step for the next call all the same, and messages of such an agreement have its id, by which no
// other takes them. Nor do they meet what MPI_Comm_idup sends on the communicator while it is under way, as calls of
// ours that do not block would.
class RollTransport final : public AgreementTransport {
  public:
    RollTransport(const comm::State& comm, comm::OperationId what, comm::Answer mine)
        : comm_(comm), what_(what), greatest_(std::move(mine)) {}
    ~RollTransport() override;
    RollTransport(const RollTransport&) = delete;
    RollTransport& operator=(const RollTransport&) = delete;

    State step() override;
    bool has_arrived(int rank) const override;
    bool waits(int rank) const override { return has_arrived(rank); }
    const comm::Answer& greatest() const { return greatest_; }  // once it is complete

  private:
    const comm::State& comm_;
    const comm::OperationId what_, result_ = call::mix(what_);  // ids of the two kinds of messages
    comm::Answer greatest_;
    bool told_ = false;
};

// A roll call from its beginning to its end, with a time limit of its own. All of its ranks take part, or have given up
// what it is about.
class RollCall {
  public:
    // Of one agreement there may be a roll call for each. Ids of other agreements of the call are close to its own, so
    // the question is told by the bit that is farthest from them.
    enum class For : std::uint8_t { kVotes, kPresence };

    // `what` is the id among the ranks of what it is about; the ranks tell by messages that they give it up where
    // `patience` is not 0, which is as in Agreement. `answer` and `did` are as in RollTransport and Agreement.
    RollCall(const comm::State& comm, comm::OperationId what, For question, comm::Answer answer, double patience,
             const char* did);

    Agreement& agreement() { return agreement_; }
    const Agreement& agreement() const { return agreement_; }
    const comm::Answer& greatest() const { return transport_.greatest(); }  // of the answers, once it is complete

  private:
    const progress::Deadline deadline_;
    RollTransport transport_;
    JobMessages messages_;
    Agreement agreement_;
};

}  // namespace swy::coll
