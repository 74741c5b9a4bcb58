// A non-blocking MPI collective of all ranks on the program's communicator, which exchanges their votes. A collective
// steps it without blocking, and waits for it as long as SWITCHYARD_TIMEOUT says. Under the engine's lock.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "coll/agreement.hpp"
#include "coll/arrivals.hpp"
#include "comm/job_messages.hpp"
#include "comm/state.hpp"
#include "progress/wait.hpp"

namespace swy::coll {

// The exchange's request; none any more when the wait was given up. Derived classes add the memory that MPI reads and
// writes.
struct Exchange {
    MPI_Request request = MPI_REQUEST_NULL;
};
struct VoteExchange : Exchange {
    VoteRecord mine{}, all{};
};

class PendingAgreement {
  public:
    // The exchange `asked` has been started, and the communicator lives until its end. `what` is its id among the
    // ranks, which tell each other when they give it up; 0: they do not. `seconds` 0: it waits for ever. `did` says
    // what every rank was to do; `nonblocking` is as in Arrivals.
    PendingAgreement(comm::State& comm, std::shared_ptr<Exchange> asked, comm::OperationId what, double seconds,
                     const char* did, std::uint64_t nonblocking = 0);

    // Calls MPI_Test. Returns nothing until all ranks have answered; then "", or why there is no answer and will be
    // none: MPI may still work on the exchange, and what it needs for that is kept.
    std::optional<std::string> step();

  private:
    std::string give_up();
    std::string given_up_elsewhere() const;

    comm::State& comm_;
    const std::shared_ptr<Exchange> asked_;
    const comm::OperationId what_;
    const char* const did_;
    const progress::Deadline deadline_;
    Arrivals arrivals_;
};

}  // namespace swy::coll
