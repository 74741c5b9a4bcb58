#include "request/complete.hpp"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "error/unless_thrown.hpp"
#include "progress/engine.hpp"
#include "progress/stall.hpp"
#include "real.hpp"
#include "request/completing.hpp"
#include "request/table.hpp"

// Here MPI's functions are called as if from the program, since its error handlers may run inside them: what a handler
// calls is treated like any other call of the program.
namespace swy::request::complete {
namespace {

// The status that the real call fills: the program's, or this object's where the program wants none.
class OneStatus {
  public:
    explicit OneStatus(MPI_Status* wanted) : seen_(wanted != MPI_STATUS_IGNORE ? wanted : &own_) { seen_->_ucount = 0; }
    OneStatus(const OneStatus&) = delete;
    OneStatus& operator=(const OneStatus&) = delete;
    operator MPI_Status*() const { return seen_; }
    MPI_Status& operator*() const { return *seen_; }

  private:
    MPI_Status own_{};
    MPI_Status* seen_;
};

class Statuses {
  public:
    Statuses(MPI_Status* wanted, int count) : seen_(wanted) {
        if (wanted != MPI_STATUSES_IGNORE)
            return;
        seen_ = few_;
        if (count > kFew) {
            many_.resize(static_cast<std::size_t>(count));
            seen_ = many_.data();
        }
    }
    Statuses(const Statuses&) = delete;
    Statuses& operator=(const Statuses&) = delete;
    operator MPI_Status*() const { return seen_; }
    std::span<MPI_Status> first(int count) const { return {seen_, static_cast<std::size_t>(std::max(count, 0))}; }

  private:
    static constexpr int kFew = 64;
    MPI_Status few_[kFew];
    std::vector<MPI_Status> many_;
    MPI_Status* seen_;
};

// For a call that completes some of several requests and does not wait: the program's requests without those that MPI
// must not complete yet.
class WithoutIncomplete {
  public:
    WithoutIncomplete(MPI_Request* requests, int count) : requests_(requests) {
        if (large_receives != 0) [[unlikely]]
            leave_out(count);
    }
    ~WithoutIncomplete() {
        for (std::size_t i = 0; i < copy_.size(); ++i)
            if (copy_[i] != MPI_REQUEST_NULL || !left_out_[i])
                requests_[i] = copy_[i];
    }
    WithoutIncomplete(const WithoutIncomplete&) = delete;
    WithoutIncomplete& operator=(const WithoutIncomplete&) = delete;

    bool any() const { return !copy_.empty(); }
    MPI_Request* requests() { return copy_.data(); }

  private:
    void leave_out(int count) {
        for (int i = 0; requests_ != nullptr && i < count; ++i)
            if (const Found found = find(requests_[i]); counts(found) && !may_complete(found)) {
                left_out_.resize(static_cast<std::size_t>(count));
                left_out_[static_cast<std::size_t>(i)] = true;
            }
        if (left_out_.empty())
            return;
        copy_.assign(requests_, requests_ + count);
        for (std::size_t i = 0; i < copy_.size(); ++i)
            if (left_out_[i])
                copy_[i] = MPI_REQUEST_NULL;
    }

    MPI_Request* const requests_;
    std::vector<bool> left_out_;
    std::vector<MPI_Request> copy_;
};

// Describes the first of Switchyard's requests that is not complete; "" without one. Under the engine's lock.
std::string incomplete(std::span<const Known> requests) {
    for (const Known& known : requests) {
        const std::shared_ptr<Handle>& handle = known.record().handle;
        if (handle != nullptr && handle->operation() != nullptr && !handle->operation()->done())
            return handle->operation()->describe();
    }
    return {};
}

// Makes a real call that waits for some of these requests.
template <typename Call>
int waiting(std::span<const Known> requests, Call call) {
    if (progress::alive.load(std::memory_order_relaxed) == 0) [[likely]]
        return call();
    const auto describe = [requests] {
        return progress::under_lock_at_once([requests] { return incomplete(requests); });
    };
    const progress::Waiting here(describe);
    return call();
}

// Frees a receive that may be of a large message, which goes on.
int free_large(const Found& found, MPI_Request* request) {
    Record& record = *found.record;
    std::shared_ptr<progress::Operation> operation = record.operation;
    MPI_Request mine = *request;
    if (!record.checked) {
        const progress::Hold hold;
        operation = go_on(record.receive, std::exchange(mine, MPI_REQUEST_NULL));
    }
    leave(found);
    *request = mine;
    const int code = mine != MPI_REQUEST_NULL ? real::Request_free(request) : MPI_SUCCESS;
    MPI_Request shown = MPI_REQUEST_NULL;
    if (operation != nullptr && hand_out(std::move(operation), &shown) == MPI_SUCCESS)
        free(&shown);  // so that a failure is said
    return code;
}

}  // namespace

int wait(MPI_Request* request, MPI_Status* status) {
    if (StandIns with(request, 1); with.any()) [[unlikely]]
        return wait(with.requests(), status);
    const Found found = request != nullptr ? find(*request) : Found{};
    if (!counts(found))
        return real::Wait(request, status);
    const Known known{0, found};
    const OneStatus seen(status);
    const int code =
        error::unless_thrown([&] { return waiting(std::span(&known, 1), [&] { return real::Wait(request, seen); }); },
                             [&] { thrown(known, *request, *seen); });
    return complete_one(known, *request, code, *seen);
}

int waitany(int count, MPI_Request* requests, int* index, MPI_Status* status) {
    if (StandIns with(requests, count); with.any()) [[unlikely]]
        return waitany(count, with.requests(), index, status);
    Completing completing(requests, count);
    if (completing.none() || index == nullptr)
        return real::Waitany(count, requests, index, status);
    const OneStatus seen(status);
    *index = MPI_UNDEFINED;  // in case the real call returns before it sets it
    const int code = error::unless_thrown(
        [&] { return waiting(completing.all(), [&] { return real::Waitany(count, requests, index, seen); }); },
        [&] { completing.thrown(std::span(&*seen, 1), index); });
    if (code == MPI_SUCCESS && completing.goes_on(requests, *index, *seen)) [[unlikely]]
        return waitany(count, requests, index, status);
    return completing.one(*index, code, *seen);
}

int waitall(int count, MPI_Request* requests, MPI_Status* statuses) {
    if (StandIns with(requests, count); with.any()) [[unlikely]]
        return waitall(count, with.requests(), statuses);
    Completing completing(requests, count);
    if (completing.none())
        return real::Waitall(count, requests, statuses);
    const Statuses seen(statuses, count);
    const int code = error::unless_thrown(
        [&] { return waiting(completing.all(), [&] { return real::Waitall(count, requests, seen); }); },
        [&] { completing.thrown(seen.first(count), nullptr); });
    return completing.several(code, seen.first(count), nullptr);
}

int waitsome(int count, MPI_Request* requests, int* completed, int* indices, MPI_Status* statuses) {
    if (StandIns with(requests, count); with.any()) [[unlikely]]
        return waitsome(count, with.requests(), completed, indices, statuses);
    Completing completing(requests, count);
    if (completing.none() || completed == nullptr || indices == nullptr)
        return real::Waitsome(count, requests, completed, indices, statuses);
    const Statuses seen(statuses, count);
    *completed = 0;
    const int code = error::unless_thrown(
        [&] {
            return waiting(completing.all(), [&] { return real::Waitsome(count, requests, completed, indices, seen); });
        },
        [&] { completing.thrown(seen.first(*completed), indices); });
    if (code == MPI_SUCCESS && *completed > 0) {
        const int left = completing.without_going_on(requests, indices, seen.first(*completed));
        if (left == 0) [[unlikely]]
            return waitsome(count, requests, completed, indices, statuses);
        *completed = left;
    }
    return completing.several(code, seen.first(*completed), indices);
}

int test(MPI_Request* request, int* flag, MPI_Status* status) {
    if (StandIns with(request, 1); with.any()) [[unlikely]]
        return test(with.requests(), flag, status);
    const Found found = request != nullptr ? find(*request) : Found{};
    if (!counts(found) || flag == nullptr)
        return real::Test(request, flag, status);
    *flag = 0;
    if (!may_complete(found))
        return MPI_SUCCESS;
    const Known known{0, found};
    const OneStatus seen(status);
    const int code =
        error::unless_thrown([&] { return real::Test(request, flag, seen); }, [&] { thrown(known, *request, *seen); });
    return *flag != 0 ? complete_one(known, *request, code, *seen) : code;
}

int testany(int count, MPI_Request* requests, int* index, int* flag, MPI_Status* status) {
    if (StandIns with(requests, count); with.any()) [[unlikely]]
        return testany(count, with.requests(), index, flag, status);
    if (WithoutIncomplete without(requests, count); without.any() && index != nullptr && flag != nullptr) [[unlikely]] {
        const int code = testany(count, without.requests(), index, flag, status);
        if (*flag != 0 && *index == MPI_UNDEFINED)  // all others are inactive
            *flag = 0;
        return code;
    }
    Completing completing(requests, count);
    if (completing.none() || index == nullptr || flag == nullptr)
        return real::Testany(count, requests, index, flag, status);
    const OneStatus seen(status);
    *flag = 0;
    *index = MPI_UNDEFINED;
    const int code = error::unless_thrown([&] { return real::Testany(count, requests, index, flag, seen); },
                                          [&] { completing.thrown(std::span(&*seen, 1), index); });
    return completing.one(*flag != 0 ? *index : MPI_UNDEFINED, code, *seen);
}

int testall(int count, MPI_Request* requests, int* flag, MPI_Status* statuses) {
    if (StandIns with(requests, count); with.any()) [[unlikely]]
        return testall(count, with.requests(), flag, statuses);
    Completing completing(requests, count);
    if (completing.none() || flag == nullptr)
        return real::Testall(count, requests, flag, statuses);
    *flag = 0;
    if (!completing.all_may_complete())
        return MPI_SUCCESS;
    const Statuses seen(statuses, count);
    const int code = error::unless_thrown([&] { return real::Testall(count, requests, flag, seen); },
                                          [&] { completing.thrown(seen.first(count), nullptr); });
    return *flag != 0 ? completing.several(code, seen.first(count), nullptr) : code;
}

int testsome(int count, MPI_Request* requests, int* completed, int* indices, MPI_Status* statuses) {
    if (StandIns with(requests, count); with.any()) [[unlikely]]
        return testsome(count, with.requests(), completed, indices, statuses);
    if (WithoutIncomplete without(requests, count); without.any() && completed != nullptr) [[unlikely]] {
        const int code = testsome(count, without.requests(), completed, indices, statuses);
        if (*completed == MPI_UNDEFINED)  // all others are inactive
            *completed = 0;
        return code;
    }
    Completing completing(requests, count);
    if (completing.none() || completed == nullptr || indices == nullptr)
        return real::Testsome(count, requests, completed, indices, statuses);
    const Statuses seen(statuses, count);
    *completed = 0;
    const int code = error::unless_thrown([&] { return real::Testsome(count, requests, completed, indices, seen); },
                                          [&] { completing.thrown(seen.first(*completed), indices); });
    return completing.several(code, seen.first(*completed), indices);
}

int get_status(MPI_Request request, int* flag, MPI_Status* status) {
    if (StandIns with(&request, 1); with.any()) [[unlikely]]
        return get_status(*with.requests(), flag, status);
    const Found found = find(request);
    if (!counts(found) || flag == nullptr)
        return real::Request_get_status(request, flag, status);
    *flag = 0;
    if (!may_complete(found))
        return MPI_SUCCESS;
    const Known known{0, found};
    const OneStatus seen(status);
    const int code = real::Request_get_status(request, flag, seen);
    if (code == MPI_SUCCESS && *flag != 0)
        look_at(known, *seen);
    return code;
}

int start(MPI_Request* request) {
    const Found found = request != nullptr ? find(*request) : Found{};
    if (!found)
        return real::Start(request);
    const MPI_Request before = *request;
    int code = MPI_SUCCESS;
    if (found.record->handle != nullptr) {
        const std::shared_ptr<Handle> handle = found.record->handle;
        code = handle->start(*request);
        if (*request != before) {
            leave(found);
            enter(*request, handle);
        }
        return code;
    }
    if (found.record->stand_in != MPI_REQUEST_NULL)
        return refuse_second_start(*found.record);
    const std::shared_ptr<progress::Operation> operation = found.record->start(request, code);
    if (operation != nullptr)
        return stand_in(*found.record, operation);
    if (*request != before) {
        HostReceive receive = found.record->receive;
        HostStarter starter = found.record->start;
        leave(found);
        enter(*request, std::move(receive), std::move(starter));
    }
    if (code == MPI_SUCCESS) {
        Record& record = *find(*request).record;
        record.checked = record.gone = false;
        record.started = true;
    }
    return code;
}

int startall(int count, MPI_Request* requests) {
    if (requests == nullptr ||
        std::none_of(requests, requests + std::max(count, 0), [](MPI_Request r) { return bool(find(r)); }))
        return real::Startall(count, requests);
    for (int i = 0; i < count; ++i)
        if (const int code = start(&requests[i]); code != MPI_SUCCESS)
            return code;
    return MPI_SUCCESS;
}

int cancel(MPI_Request* request) {
    if (StandIns with(request, 1); with.any()) [[unlikely]]
        return cancel(with.requests());
    const Found found = request != nullptr ? find(*request) : Found{};
    const std::shared_ptr<Handle> handle = found ? found.record->handle : nullptr;
    if (handle == nullptr || !handle->persistent() || handle->operation() == nullptr)
        return real::Cancel(request);  // which calls a generalized request's cancel function
    const progress::Hold hold;
    if (!handle->operation()->done())
        handle->operation()->cancel();
    return MPI_SUCCESS;
}

int free(MPI_Request* request) {
    const Found found = request != nullptr ? find(*request) : Found{};
    if (!found)
        return real::Request_free(request);
    // The memory of a watched receive that is freed while it is active is not checked any more: the program may find
    // out in other ways when it is complete, and reuse the memory.
    const std::shared_ptr<Handle> handle = found.record->handle;
    if (found.record->is_large)
        return free_large(found, request);
    if (handle == nullptr)
        if (StandIns with(request, 1); with.any())
            if (const int code = free(with.requests()); code != MPI_SUCCESS)
                return code;
    leave(found);
    return handle != nullptr ? handle->free(*request) : real::Request_free(request);
}

}  // namespace swy::request::complete
