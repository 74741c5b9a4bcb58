#include "route/asking.hpp"

#include <fmt/format.h>

#include <utility>

#include "real.hpp"
#include "request/engine.hpp"

namespace swy::route {
namespace {

// What MPI has under way between two processes keeps a communicator alive when it is freed, unlike a collective. This
// receive is of a message that nobody sends: from this process, with the greatest tag.
void keep_alive(const comm::State& comm) {
    int found = 0;
    int* greatest = nullptr;
    MPI_Request never = MPI_REQUEST_NULL;
    real::Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, static_cast<void*>(&greatest), &found);
    if (found)
        real::Irecv(nullptr, 0, MPI_BYTE, comm.rank, *greatest, comm.handle, &never);
}

}  // namespace

Asking::Asking(const comm::State& comm, std::shared_ptr<Asked> asked, comm::Undertaking what, double seconds,
               const char* did, std::uint64_t begun)
    : comm_(comm),
      asked_(std::move(asked)),
      what_(what),
      did_(did),
      deadline_(seconds),
      arrivals_(comm, what, seconds, begun) {}

std::optional<std::string> Asking::step() {
    if (!request::may_ask())
        return std::nullopt;
    int flag = 0;
    const int rc = real::Test(&asked_->request, &flag, MPI_STATUS_IGNORE);
    if (rc != MPI_SUCCESS)
        return "the agreement of the ranks failed";
    if (flag != 0)
        return given_up_elsewhere();
    if (deadline_.passed())
        return give_up();
    arrivals_.look();
    return std::nullopt;
}

// MPI goes on with the exchange, and writes into what it was given when the last rank comes. That one must not begin
// what others will not: it hears of it.
std::string Asking::give_up() {
    new std::shared_ptr<Asked>(asked_);
    asked_->left_to_mpi = true;
    keep_alive(comm_);
    const std::string why = not_all(did_, arrivals_.known());
    if (what_ != 0)
        comm::tell_failure(comm::ranks_in_world(comm_), comm_.rank, what_, why);
    return why;
}

std::string Asking::given_up_elsewhere() const {
    if (what_ == 0)
        return {};
    comm::hear_failures();
    comm::Failure first;
    if (!comm::failure_told(what_, &first))
        return {};
    comm::forget_failures(what_);
    return fmt::format("rank {} has given it up: {}", first.rank, first.why);
}

}  // namespace swy::route
