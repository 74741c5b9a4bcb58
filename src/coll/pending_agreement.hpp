// A non-blocking MPI collective of all ranks on the program's communicator, which exchanges their votes. A collective
// steps it without blocking, and waits for it as long as SWITCHYARD_TIMEOUT says. Under the engine's lock. And which
// ranks have arrived meanwhile.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "coll/agreement.hpp"
#include "comm/job_messages.hpp"
#include "comm/launch_order.hpp"
#include "comm/state.hpp"
#include "progress/wait.hpp"

namespace swy::coll {

// Returns the id of the agreement on an operation: the same on all ranks, and no other agreement's. Never 0.
comm::OperationId name_of(const comm::LaunchOrder& order, const comm::LaunchOrder::Launch& launch);

// Why another rank has given the operation up, as far as this one has its message; "" where none has.
std::string given_up_elsewhere(comm::OperationId what);

// Which ranks have entered a call that waits for all of them: the error of a rank that has waited as long as
// SWITCHYARD_TIMEOUT says names them. The agreement itself does not exchange this. A rank that has waited for half of
// that time tells the others, and those that wait too answer. A rank that computes while its non-blocking call is under
// way sends nothing: MPI makes the progress that its call needs.
class Arrivals {
  public:
    // `what` is the operation that the ranks wait for; 0: it has no id, and no rank sends messages. `seconds` 0: no
    // rank gives up, nor sends messages. `nonblocking` is one more than the number of a non-blocking call among the
    // communicator's calls; 0 for other calls.
    Arrivals(const comm::State& comm, comm::OperationId what, double seconds, std::uint64_t nonblocking = 0);

    // A waiting rank calls this as often as it likes. Does not block; calls MPI now and then.
    void look();

    // Returns by rank whether it has arrived; empty where that cannot be known. Where the ranks have a shared page, it
    // shows the non-blocking calls of ranks that compute, too.
    std::vector<bool> known() const;

  private:
    const comm::State& comm_;
    const comm::OperationId what_;
    const double seconds_;
    const std::uint64_t nonblocking_;
    const progress::Deadline half_;
    progress::Deadline next_;
    bool told_ = false;
};

// The error text of a rank that has waited as long as it may: not all ranks "entered the call", or whatever `did` says.
inline constexpr const char* kEntered = "entered the call";
std::string not_all(const progress::Deadline& deadline, const char* did, const std::vector<bool>& arrived);

// The same as a clause of SWITCHYARD_STALL's.
std::string not_yet_all(const char* did, const std::vector<bool>& arrived);

// The same for an operation that all ranks have entered. `missing` is the rank whose launch token has not arrived;
// MPI_PROC_NULL: all tokens that this rank needs have.
std::string not_launched(const progress::Deadline& deadline, int missing);

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
    std::string waits_for() const;  // as a clause

  private:
    std::string give_up();

    comm::State& comm_;
    const std::shared_ptr<Exchange> asked_;
    const comm::OperationId what_;
    const char* const did_;
    const progress::Deadline deadline_;
    Arrivals arrivals_;
};

}  // namespace swy::coll
