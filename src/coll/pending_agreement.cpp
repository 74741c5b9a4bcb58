#include "coll/pending_agreement.hpp"

#include <fmt/format.h>

#include <utility>

#include "call/hash.hpp"
#include "error/loss.hpp"
#include "progress/engine.hpp"
#include "progress/keep_until.hpp"
#include "real.hpp"
#include "report/units.hpp"
#include "request/real_end.hpp"
#include "settings/settings.hpp"

namespace swy::coll {

std::string given_up_elsewhere(comm::OperationId what) {
    if (what == 0)
        return {};
    comm::receive_failures();
    comm::Failure first;
    if (!comm::failure_known(what, &first))
        return {};
    comm::forget_failures(what);
    return fmt::format("rank {} has given it up: {}", first.rank, first.why);
}

PendingAgreement::PendingAgreement(comm::State& comm, std::shared_ptr<Exchange> asked, comm::OperationId what,
                                   double seconds, const char* did, std::uint64_t nonblocking)
    : comm_(comm),
      asked_(std::move(asked)),
      what_(what),
      did_(did),
      deadline_(seconds, comm.handle),
      arrivals_(comm, what, seconds, nonblocking) {}

std::optional<std::string> PendingAgreement::step() {
    if (!progress::may_poll())
        return std::nullopt;
    int code = MPI_SUCCESS;
    MPI_Status ignored;
    if (request::has_ended(asked_->request, Owner(comm_.handle), ignored, code))
        return code != MPI_SUCCESS ? "the agreement of the ranks failed" : given_up_elsewhere(what_);
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
    const std::string why = not_all(deadline_, did_, arrivals_.known());
    if (what_ != 0 && !error::loss_of(comm_.handle))
        comm::tell_failure(comm::ranks_in_world(comm_), comm_.rank, what_, why);
    return why;
}

std::string PendingAgreement::waits_for() const {
    return not_yet_all(did_, arrivals_.known());
}

namespace {

constexpr double kLooks = 50;  // number of looks in the time that a rank may wait

}  // namespace

comm::OperationId name_of(const comm::LaunchOrder& order, const comm::LaunchOrder::Launch& launch) {
    return call::kGoldenRatio * (static_cast<std::uint64_t>(order.number()) << 32U | launch.number) + launch.start;
}

Arrivals::Arrivals(const comm::State& comm, comm::OperationId what, double seconds, std::uint64_t nonblocking)
    : comm_(comm),
      what_(what),
      seconds_(seconds),
      nonblocking_(nonblocking),
      half_(seconds / 2),
      next_(seconds / kLooks) {}

void Arrivals::look() {
    if (what_ == 0 || !next_.passed())
        return;
    next_ = progress::Deadline(seconds_ / kLooks);
    comm::receive_failures();
    if (told_ || (!half_.passed() && comm::ranks_waiting(what_).empty()))
        return;
    told_ = true;
    comm::tell_waiting(comm::ranks_in_world(comm_), comm_.rank, what_);
}

std::vector<bool> Arrivals::known() const {
    if (what_ == 0)
        return {};
    std::vector<bool> arrived(static_cast<std::size_t>(comm_.size));
    arrived[static_cast<std::size_t>(comm_.rank)] = true;
    for (const int rank : comm::ranks_waiting(what_))
        arrived[static_cast<std::size_t>(rank)] = true;
    if (nonblocking_ != 0 && comm_.page != nullptr)
        for (int rank = 0; rank < comm_.size; ++rank)
            if (comm_.page->nonblocking(rank).end >= nonblocking_)
                arrived[static_cast<std::size_t>(rank)] = true;
    return arrived;
}

std::string not_launched(const progress::Deadline& deadline, int missing) {
    const std::string who = missing == MPI_PROC_NULL ? "" : fmt::format(": rank {} has not launched it yet", missing);
    return fmt::format("{} before all ranks launched it{}: see that each calls MPI meanwhile, or allow more time",
                       deadline.why(), who);
}

namespace {

// MPI's error texts hold 255 characters, so the shorter of the two lists is shown.
std::string who_is_missing(const std::vector<bool>& arrived) {
    std::vector<int> here, missing;
    for (std::size_t rank = 0; rank < arrived.size(); ++rank)
        (arrived[rank] ? here : missing).push_back(static_cast<int>(rank));
    if (missing.empty())
        return {};
    return missing.size() <= here.size() ? fmt::format(", with no sign of {}", report::ranks_in_words(missing))
                                         : fmt::format(", with {} here alone", report::ranks_in_words(here));
}

}  // namespace

std::string not_all(const progress::Deadline& deadline, const char* did, const std::vector<bool>& arrived) {
    return fmt::format("{} before all ranks {}{}: see that each does, or allow more time", deadline.why(), did,
                       who_is_missing(arrived));
}

std::string not_yet_all(const char* did, const std::vector<bool>& arrived) {
    return fmt::format("not all ranks have {}{}", did, who_is_missing(arrived));
}

}  // namespace swy::coll
