// An agreement by a collective of MPI's that keeps nobody waiting: the operation that needs it steps it, under the
// engine's lock.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "coll/agreement.hpp"
#include "coll/agreement_transport.hpp"
#include "coll/roll_call.hpp"
#include "comm/job_messages.hpp"
#include "comm/state.hpp"
#include "progress/wait.hpp"

namespace swy::coll {

class PendingAgreement {
  public:
    // The collective of `exchange` has been started, and the communicator lives until its end. `what` is the
    // agreement's id among the ranks, which tell each other when they give it up; 0: they do not. It waits as long as
    // SWITCHYARD_TIMEOUT says. `did` says what every rank was to do; `nonblocking` is as in MpiTransport.
    PendingAgreement(comm::State& comm, std::shared_ptr<MpiExchange> exchange, comm::OperationId what, const char* did,
                     std::uint64_t nonblocking = 0);

    // Calls MPI_Test. Returns nothing until all ranks have answered, and have been at the roll call where there is one;
    // then "", or why there is no answer and will be none: MPI may still work on the exchange, and what it needs for
    // that is kept.
    std::optional<std::string> step();
    std::string waits_for() const { return now().waits_for(); }  // as a clause

  private:
    const Agreement& now() const { return roll_ ? roll_->agreement() : agreement_; }

    const comm::State& comm_;
    const std::shared_ptr<MpiExchange> exchange_;
    const comm::OperationId what_;
    const char* const did_;
    MpiTransport transport_;
    JobMessages messages_;
    const progress::Deadline deadline_;
    Agreement agreement_;
    std::optional<RollCall> roll_;
};

}  // namespace swy::coll
