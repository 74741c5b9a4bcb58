#include "coll/pending_agreement.hpp"

#include <fmt/format.h>

#include <utility>

#include "progress/engine.hpp"
#include "progress/keep_until.hpp"
#include "real.hpp"
#include "request/real_end.hpp"

namespace swy::coll {
PendingAgreement::PendingAgreement(comm::State& comm, std::shared_ptr<Exchange> asked, comm::OperationId what,
                                   double seconds, const char* did, std::uint64_t nonblocking)
    : comm_(comm),
      asked_(std::move(asked)),
      what_(what),
      did_(did),
      deadline_(seconds),
      arrivals_(comm, what, seconds, nonblocking) {}

std::optional<std::string> PendingAgreement::step() {
    if (!progress::may_poll())
        return std::nullopt;
    int code = MPI_SUCCESS;
    MPI_Status ignored;
    if (request::has_ended(asked_->request, Owner(comm_.handle), ignored, code))
        return code != MPI_SUCCESS ? "the agreement of the ranks failed" : given_up_elsewhere();
    if (deadline_.passed())
        return give_up();
    arrivals_.look();
    return std::nullopt;
}

// MPI goes on with the exchange, and writes into its memory when the last rank comes. That rank must not start what the
// others will not, so it is told of the failure.
std::string PendingAgreement::give_up() {
    progress::keep_until(std::exchange(asked_->request, MPI_REQUEST_NULL), asked_);
    comm_.given_up = true;
    const std::string why = not_all(did_, arrivals_.known());
    if (what_ != 0)
        comm::tell_failure(comm::ranks_in_world(comm_), comm_.rank, what_, why);
    return why;
}

std::string PendingAgreement::given_up_elsewhere() const {
    if (what_ == 0)
        return {};
    comm::receive_failures();
    comm::Failure first;
    if (!comm::failure_known(what_, &first))
        return {};
    comm::forget_failures(what_);
    return fmt::format("rank {} has given it up: {}", first.rank, first.why);
}

}  // namespace swy::coll
