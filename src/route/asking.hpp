// An exchange of MPI's with all ranks of a communicator, on that itself, for which a collective waits without blocking
// and as long as SWITCHYARD_TIMEOUT says. Under the engine's lock.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "comm/control.hpp"
#include "comm/state.hpp"
#include "request/wait.hpp"
#include "route/agreement.hpp"
#include "route/arrivals.hpp"

namespace swy::route {

// The exchange's request, and what MPI reads and writes: who asks derives from it.
struct Asked {
    MPI_Request request = MPI_REQUEST_NULL;
    bool left_to_mpi = false;  // which is at work on it for as long as it likes
};
struct Ballots : Asked {
    Ballot mine{}, all{};
};

class Asking {
  public:
    // The exchange has been begun, and the communicator lives until its end. `what` names it among the ranks, who tell
    // each other when they give it up; 0: they do not. 0 seconds: it waits for ever.
    // `did` says what every rank was to do, `begun` is as Arrivals has it.
    Asking(const comm::State& comm, std::shared_ptr<Asked> asked, comm::Undertaking what, double seconds,
           const char* did, std::uint64_t begun = 0);

    // Asks MPI. Nothing as long as not all have answered; then "", or why there is no answer and will be none: MPI may
    // be at work on the exchange still, and what that needs is kept.
    std::optional<std::string> step();

  private:
    std::string give_up();
    std::string given_up_elsewhere() const;

    const comm::State& comm_;
    const std::shared_ptr<Asked> asked_;
    const comm::Undertaking what_;
    const char* const did_;
    const request::Deadline deadline_;
    Arrivals arrivals_;
};

}  // namespace swy::route
