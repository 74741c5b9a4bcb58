#include "request/completing.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "comm/state.hpp"
#include "error/error.hpp"
#include "error/loss.hpp"
#include "progress/engine.hpp"
#include "progress/wait.hpp"
#include "real.hpp"
#include "request/receive_buffers.hpp"
#include "request/table.hpp"

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
    if (request == MPI_REQUEST_NULL) {
        leave(known.found);
        return;
    }
    Record& record = known.record();
    record.started = false;
    record.operation.reset();
}

// Checks the memory of a watched receive that has completed, unless somebody has done so before.
void check(Record& record, int real_class, const MPI_Status& status) {
    if (record.handle != nullptr || record.checked || !may_hold_envelope(status) ||
        (real_class != MPI_SUCCESS && real_class != MPI_ERR_TRUNCATE))
        return;
    const progress::Hold hold;
    record.checked = true;
    record.operation = envelope_arrived(record.receive, status);
}

// Can the receive not tell which message it has had? Those that can are checked first.
bool is_in_doubt(const HostReceive& receive) {
    return receive.bytes < call::kEnvelopeBytes ||
           (receive.buffer != nullptr && buffers::content_is_lost(receive.buffer));
}

// Waits for the operation that goes on with the message of a watched receive, and shows its outcome.
Failure finish_watched(const Record& record, int real_class, MPI_Status& status) {
    const std::shared_ptr<progress::Operation> operation = record.operation;
    if (operation == nullptr)
        return {};
    progress::wait_for(*operation);
    show(operation->outcome(), status);
    if (real_class != MPI_SUCCESS)
        return {};  // MPI has reported it
    return {operation->outcome().mpi_class, operation->outcome().text, operation->owner()};
}

Failure publish_status(const Known& known, MPI_Request request, int real_class, MPI_Status& status) {
    if (known.record().handle != nullptr)
        return settle_ours(known, status);
    known.record().gone = true;
    check(known.record(), real_class, status);
    Failure failure = finish_watched(known.record(), real_class, status);
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

// Tells whether a request that has completed without an error is a watched receive of an ordinary message.
bool is_ordinary(const Known& known, const MPI_Status& status) {
    const Record& record = known.record();
    return record.handle == nullptr && record.operation == nullptr && !may_hold_envelope(status);
}

// A communicator may be freed before what is pending on it is complete; a file may not be closed, nor a window freed.
Owner living(const Owner& owner) {
    const bool lives = owner.kind == Owner::Kind::kFile || owner.kind == Owner::Kind::kWin ||
                       owner.comm == MPI_COMM_WORLD || comm::lives(owner.comm);
    return lives ? owner : Owner(MPI_COMM_WORLD);
}

int class_of(const Failure& failure) {
    return error::survives ? error::class_of(living(failure.owner), failure.mpi_class) : failure.mpi_class;
}

int raise(const Failure& failure) {
    return error::raise(living(failure.owner), failure.mpi_class, failure.text);
}

}  // namespace

int complete_one(const Known& known, MPI_Request request, int code, MPI_Status& status) {
    if (code == MPI_SUCCESS && is_ordinary(known, status)) [[likely]] {
        end_watch(known, request);
        return code;
    }
    const Failure failure = publish_status(known, request, class_of(code), status);
    return failure.mpi_class != MPI_SUCCESS && code == MPI_SUCCESS ? raise(failure) : code;
}

void look_at(const Known& known, MPI_Status& status) {
    Record& record = known.record();
    if (record.handle == nullptr) {
        check(record, MPI_SUCCESS, status);
        finish_watched(record, MPI_SUCCESS, status);
        return;
    }
    const std::shared_ptr<progress::Operation> operation = record.handle->operation();
    show(operation != nullptr && operation->done() ? operation->outcome() : progress::Outcome{}, status);
}

// MPI_Request_get_status asks without completing MPI's request, which holds the envelope, and an operation that goes on
// with the message may have to be waited for.
bool may_complete(const Found& found) {
    Record& record = *found.record;
    if (!record.is_large)
        return true;
    if (!record.checked) {
        int flag = 0;
        MPI_Status status;
        const int code = real::Request_get_status(record.request, &flag, &status);
        if (code != MPI_SUCCESS || flag == 0)
            return code != MPI_SUCCESS;
        check(record, MPI_SUCCESS, status);
    } else if (record.operation != nullptr && !record.operation->done()) {
        progress::progress();
    }
    return record.operation == nullptr || record.operation->done();
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

bool Completing::goes_on(MPI_Request* requests, int index, const MPI_Status& status) {
    const Known* const known = at(index);
    if (known == nullptr || is_ordinary(*known, status) || known->record().handle != nullptr ||
        requests[index] != MPI_REQUEST_NULL)
        return false;
    Record& record = known->record();
    record.gone = true;
    check(record, MPI_SUCCESS, status);
    const std::shared_ptr<progress::Operation> operation = record.operation;
    if (operation == nullptr || operation->done() || hand_out(operation, &requests[index]) != MPI_SUCCESS)
        return false;
    leave(known->found);
    return true;
}

// Those that can tell which message they have had are checked first, as in several_with_care().
int Completing::without_going_on(MPI_Request* requests, int* indices, std::span<MPI_Status> statuses) {
    std::vector<bool> left_out(statuses.size());
    for (std::size_t k = 0; k < left_out.size(); ++k)
        if (const Known* known = at(indices[k]))
            known->record().gone = true;
    for (const bool in_doubt : {false, true})
        for (std::size_t k = 0; k < left_out.size(); ++k)
            if (const Known* known = at(indices[k]);
                known != nullptr && is_in_doubt(known->record().receive) == in_doubt)
                left_out[k] = goes_on(requests, indices[k], statuses[k]);
    int number = 0;
    for (std::size_t k = 0; k < left_out.size(); ++k)
        if (!left_out[k]) {
            indices[number] = indices[k];
            statuses[static_cast<std::size_t>(number++)] = statuses[k];
        }
    return number;
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
         [&](std::size_t, const Known& known) { known.record().gone = requests_[known.index] == MPI_REQUEST_NULL; });
    each(statuses, indices, [&](std::size_t k, const Known& known) {
        if (known.record().gone)
            check(known.record(), MPI_ERR_TRUNCATE, statuses[k]);
    });
    each(statuses, indices,
         [&](std::size_t k, const Known& known) { request::thrown(known, requests_[known.index], statuses[k]); });
}

int Completing::several(int code, std::span<MPI_Status> statuses, const int* indices) {
    if (code == MPI_SUCCESS && indices == nullptr) [[likely]] {
        leave_ordinary(statuses);
        if (count_ == 0) [[likely]]
            return code;
    }
    return several_with_care(code, statuses, indices);
}

// Leaves only the others for what follows.
void Completing::leave_ordinary(std::span<MPI_Status> statuses) {
    std::size_t others = 0;
    for (const Known& known : all())
        if (is_ordinary(known, statuses[static_cast<std::size_t>(known.index)])) [[likely]]
            end_watch(known, requests_[known.index]);
        else
            known_[others++] = known;
    count_ = others;
}

int Completing::several_with_care(int code, std::span<MPI_Status> statuses, const int* indices) {
    const bool in_status = class_of(code) == MPI_ERR_IN_STATUS;
    if (code != MPI_SUCCESS && !in_status)
        return code;
    const auto real_class = [&](std::size_t k) { return in_status ? class_of(statuses[k].MPI_ERROR) : MPI_SUCCESS; };
    // All are checked before one is waited for: the engine would ask MPI about requests that are gone.
    each(statuses, indices,
         [&](std::size_t k, const Known& known) { known.record().gone = real_class(k) != MPI_ERR_PENDING; });
    for (const bool in_doubt : {false, true})
        each(statuses, indices, [&](std::size_t k, const Known& known) {
            if (known.record().gone && is_in_doubt(known.record().receive) == in_doubt)
                check(known.record(), real_class(k), statuses[k]);
        });
    std::vector<std::pair<std::size_t, Failure>> failures;
    each(statuses, indices, [&](std::size_t k, const Known& known) {
        if (real_class(k) == MPI_ERR_PENDING)
            return;
        Failure failure = publish_status(known, requests_[known.index], real_class(k), statuses[k]);
        if (failure.mpi_class != MPI_SUCCESS)
            failures.emplace_back(k, std::move(failure));
    });
    if (failures.empty())
        return code;
    if (!in_status)  // requests that have not failed must say so too (MPI 4.0 section 3.7.5)
        for (MPI_Status& status : statuses)
            status.MPI_ERROR = MPI_SUCCESS;
    for (const auto& [k, failure] : failures)
        statuses[k].MPI_ERROR = error::code(class_of(failure), failure.text);
    if (!in_status)  // else MPI has called an error handler already
        statuses[failures.front().first].MPI_ERROR = raise(failures.front().second);
    return MPI_ERR_IN_STATUS;
}

constinit std::atomic<int> stand_ins{0};

int stand_in(Record& record, std::shared_ptr<progress::Operation> operation) {
    const int code = hand_out(std::move(operation), &record.stand_in);
    if (code == MPI_SUCCESS)
        stand_ins.fetch_add(1, std::memory_order_relaxed);
    return code;
}

int refuse_second_start(const Record& record) {
    return error::raise(
        Owner(record.receive.comm), MPI_ERR_REQUEST,
        fmt::format("MPI_Start: a request of {} is active already: complete it first", name(record.receive.call)));
}

void StandIns::find_in(int count) {
    for (int i = 0; requests_ != nullptr && i < count; ++i)
        if (const Found found = find(requests_[i]); found && found.record->stand_in != MPI_REQUEST_NULL)
            found_.emplace_back(i, found.record);
    if (!any())
        return;
    copy_.assign(requests_, requests_ + count);
    for (const auto& [place, record] : found_)
        copy_[place] = record->stand_in;
}

void StandIns::put_back() {
    for (const auto& [place, record] : found_) {
        if (copy_[place] == MPI_REQUEST_NULL) {
            record->stand_in = MPI_REQUEST_NULL;
            stand_ins.fetch_sub(1, std::memory_order_relaxed);
        }
        copy_[place] = requests_[place];
    }
    std::copy(copy_.begin(), copy_.end(), requests_);
}

}  // namespace swy::request
