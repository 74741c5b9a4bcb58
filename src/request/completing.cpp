#include "request/completing.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "comm/state.hpp"
#include "error/error.hpp"
#include "progress/engine.hpp"
#include "real.hpp"
#include "request/known.hpp"

namespace swy::request {
namespace {

struct Failure {
    int mpi_class = MPI_SUCCESS;
    std::string text;
    Owner owner;
};

int class_of(int code) {
    int mpi_class = code;
    if (code != MPI_SUCCESS)
        real::Error_class(code, &mpi_class);
    return mpi_class;
}

Failure settle_ours(const Known& known, MPI_Status& status) {
    Failure failure;
    const std::shared_ptr<Handle> handle = known.record().handle;
    const std::shared_ptr<progress::Operation> operation = handle->operation();
    if (operation == nullptr || !operation->done()) {
        show({}, status);
    } else {
        const progress::Outcome& outcome = operation->outcome();
        show(outcome, status);
        failure = {outcome.mpi_class, outcome.text, operation->owner()};
        handle->ended();
    }
    if (!handle->persistent())
        leave(known.found);
    return failure;
}

// Ends the watch of a receive that has completed; `request` is as the real call has left it.
void end_watch(const Known& known, MPI_Request request) {
    if (request == MPI_REQUEST_NULL)
        leave(known.found);
    else
        known.record().started = false;
}

// Returns what the watched receive holds; checks it now if nobody has done so before.
Seen seen_in(const Known& known, MPI_Status& status) {
    Seen seen = known.record().seen.load(std::memory_order_relaxed);
    if (seen == kNotSeen) {
        const progress::Hold hold;
        seen = envelope_arrived(known.record().receive, status);
    }
    if (seen != kOrdinary)
        real::Status_set_elements_x(&status, MPI_BYTE, static_cast<MPI_Count>(seen));
    return seen;
}

Failure publish_status(const Known& known, MPI_Request request, int real_class, MPI_Status& status) {
    if (known.record().handle != nullptr)
        return settle_ours(known, status);
    Failure failure;
    if ((real_class == MPI_SUCCESS || real_class == MPI_ERR_TRUNCATE) && may_hold_envelope(status)) {
        const HostReceive& receive = known.record().receive;
        if (seen_in(known, status) != kOrdinary && real_class == MPI_SUCCESS)
            failure = {MPI_ERR_TRUNCATE,
                       fmt::format("{}: the message from rank {} with tag {} is longer than the receive's buffer of {} "
                                   "bytes",
                                   name(receive.call), status.MPI_SOURCE, status.MPI_TAG, receive.bytes),
                       Owner(receive.comm)};
    }
    end_watch(known, request);
    return failure;
}

bool is_persistent(const Known& known) {
    const Record& record = known.record();
    return record.handle != nullptr ? record.handle->persistent() : record.persistent();
}

// MPI returns an empty status for an inactive request (MPI 4.0 section 3.7.6), whereas the status of a receive names a
// rank.
bool is_inactive(MPI_Request request) {
    int flag = 0;
    MPI_Status status;
    return real::Request_get_status(request, &flag, &status) == MPI_SUCCESS && flag != 0 &&
           status.MPI_SOURCE == MPI_ANY_SOURCE;
}

bool only_watched(const Known& known, int real_class, const MPI_Status& status) {
    return known.record().handle == nullptr && real_class == MPI_SUCCESS && !may_hold_envelope(status);
}

int raise(const Failure& failure) {
    const Owner& owner = failure.owner;
    // A communicator may be freed before what is pending on it is complete; a file may not be closed.
    const bool lives = owner.kind == Owner::Kind::kFile || owner.comm == MPI_COMM_WORLD || comm::lives(owner.comm);
    return error::raise(lives ? owner : Owner(MPI_COMM_WORLD), failure.mpi_class, failure.text);
}

}  // namespace

int complete_one(const Known& known, MPI_Request request, int code, MPI_Status& status) {
    if (only_watched(known, code, status)) [[likely]] {
        end_watch(known, request);
        return code;
    }
    const Failure failure = publish_status(known, request, class_of(code), status);
    return failure.mpi_class != MPI_SUCCESS && code == MPI_SUCCESS ? raise(failure) : code;
}

void look_at(const Known& known, MPI_Status& status) {
    if (known.record().handle == nullptr) {
        if (may_hold_envelope(status))
            known.record().seen.store(seen_in(known, status), std::memory_order_relaxed);
        return;
    }
    const std::shared_ptr<progress::Operation> operation = known.record().handle->operation();
    show(operation != nullptr && operation->done() ? operation->outcome() : progress::Outcome{}, status);
}

void thrown(const Known& known, MPI_Request request, MPI_Status& status) {
    if (request == MPI_REQUEST_NULL || (is_persistent(known) && is_inactive(request)))
        publish_status(known, request, MPI_ERR_TRUNCATE, status);
}

Completing::Completing(const MPI_Request* requests, int count) : requests_(requests) {
    if (count > kUsual) {
        many_ = std::make_unique_for_overwrite<Known[]>(static_cast<std::size_t>(count));
        known_ = many_.get();
    }
    std::size_t known = 0;
    for (int i = 0; requests != nullptr && i < count; ++i)
        if (const Found found = find(requests[i]); counts(found))
            known_[known++] = {i, found};
    count_ = known;
}

const Known* Completing::at(int index) const {
    const auto place = std::lower_bound(all().begin(), all().end(), index,
                                        [](const Known& known, int wanted) { return known.index < wanted; });
    return place != all().end() && place->index == index ? &*place : nullptr;
}

int Completing::one(int index, int code, MPI_Status& status) {
    const Known* known = at(index);
    if (known == nullptr)
        return code;
    return complete_one(*known, requests_[index], code, status);
}

template <typename Settle>
void Completing::each(std::span<MPI_Status> statuses, const int* indices, Settle publish_status) {
    if (indices == nullptr)
        for (const Known& known : all())
            publish_status(static_cast<std::size_t>(known.index), known);
    else
        for (std::size_t k = 0; k < statuses.size(); ++k)
            if (const Known* known = at(indices[k]))
                publish_status(k, *known);
}

void Completing::thrown(std::span<MPI_Status> statuses, const int* indices) {
    each(statuses, indices,
         [&](std::size_t k, const Known& known) { request::thrown(known, requests_[known.index], statuses[k]); });
}

int Completing::several(int code, std::span<MPI_Status> statuses, const int* indices) {
    const bool in_status = class_of(code) == MPI_ERR_IN_STATUS;
    if (code != MPI_SUCCESS && !in_status)
        return code;
    std::vector<std::pair<std::size_t, Failure>> failures;
    const auto settle_one = [&](std::size_t k, const Known& known) {
        if (!in_status && only_watched(known, MPI_SUCCESS, statuses[k])) [[likely]] {
            end_watch(known, requests_[known.index]);
            return;
        }
        const int real_class = in_status ? class_of(statuses[k].MPI_ERROR) : MPI_SUCCESS;
        if (real_class == MPI_ERR_PENDING)
            return;
        Failure failure = publish_status(known, requests_[known.index], real_class, statuses[k]);
        if (failure.mpi_class != MPI_SUCCESS)
            failures.emplace_back(k, std::move(failure));
    };
    each(statuses, indices, settle_one);
    if (failures.empty())
        return code;
    if (!in_status)  // requests that have not failed must say so too (MPI 4.0 section 3.7.5)
        for (MPI_Status& status : statuses)
            status.MPI_ERROR = MPI_SUCCESS;
    for (const auto& [k, failure] : failures)
        statuses[k].MPI_ERROR = error::code(failure.mpi_class, failure.text);
    if (!in_status)  // else MPI has called an error handler already
        statuses[failures.front().first].MPI_ERROR = raise(failures.front().second);
    return MPI_ERR_IN_STATUS;
}

}  // namespace swy::request
