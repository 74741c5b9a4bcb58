#include "request/complete.hpp"

#include <algorithm>
#include <memory>
#include <vector>

#include "real.hpp"
#include "request/completing.hpp"
#include "request/engine.hpp"
#include "request/known.hpp"
#include "request/watched.hpp"

// MPI's functions are called as from the program here, since the handlers for its errors are: what they call is as from
// anywhere else.
namespace swy::request::complete {
namespace {

// The real call fills the program's status, or ours where the program wants none.
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
    static constexpr int kFew = 16;
    MPI_Status few_[kFew];
    std::vector<MPI_Status> many_;
    MPI_Status* seen_;
};

}  // namespace

int wait(MPI_Request* request, MPI_Status* status) {
    const Found found = request != nullptr ? find(*request) : Found{};
    if (!counts(found))
        return real::Wait(request, status);
    const Known known(0, found);
    const OneStatus seen(status);
    const int code = real::Wait(request, seen);
    return complete_one(known, *request, code, *seen);
}

int waitany(int count, MPI_Request* requests, int* index, MPI_Status* status) {
    Completing completing(requests, count);
    if (completing.none() || index == nullptr)
        return real::Waitany(count, requests, index, status);
    const OneStatus seen(status);
    *index = MPI_UNDEFINED;  // should the real call not come so far
    const int code = real::Waitany(count, requests, index, seen);
    return completing.one(*index, code, *seen);
}

int waitall(int count, MPI_Request* requests, MPI_Status* statuses) {
    Completing completing(requests, count);
    if (completing.none())
        return real::Waitall(count, requests, statuses);
    const Statuses seen(statuses, count);
    const int code = real::Waitall(count, requests, seen);
    return completing.several(code, seen.first(count), nullptr);
}

int waitsome(int count, MPI_Request* requests, int* completed, int* indices, MPI_Status* statuses) {
    Completing completing(requests, count);
    if (completing.none() || completed == nullptr || indices == nullptr)
        return real::Waitsome(count, requests, completed, indices, statuses);
    const Statuses seen(statuses, count);
    *completed = 0;
    const int code = real::Waitsome(count, requests, completed, indices, seen);
    return completing.several(code, seen.first(*completed), indices);
}

int test(MPI_Request* request, int* flag, MPI_Status* status) {
    const Found found = request != nullptr ? find(*request) : Found{};
    if (!counts(found) || flag == nullptr)
        return real::Test(request, flag, status);
    const Known known(0, found);
    const OneStatus seen(status);
    *flag = 0;
    const int code = real::Test(request, flag, seen);
    return *flag != 0 ? complete_one(known, *request, code, *seen) : code;
}

int testany(int count, MPI_Request* requests, int* index, int* flag, MPI_Status* status) {
    Completing completing(requests, count);
    if (completing.none() || index == nullptr || flag == nullptr)
        return real::Testany(count, requests, index, flag, status);
    const OneStatus seen(status);
    *flag = 0;
    *index = MPI_UNDEFINED;
    const int code = real::Testany(count, requests, index, flag, seen);
    return completing.one(*flag != 0 ? *index : MPI_UNDEFINED, code, *seen);
}

int testall(int count, MPI_Request* requests, int* flag, MPI_Status* statuses) {
    Completing completing(requests, count);
    if (completing.none() || flag == nullptr)
        return real::Testall(count, requests, flag, statuses);
    const Statuses seen(statuses, count);
    *flag = 0;
    const int code = real::Testall(count, requests, flag, seen);
    return *flag != 0 ? completing.several(code, seen.first(count), nullptr) : code;
}

int testsome(int count, MPI_Request* requests, int* completed, int* indices, MPI_Status* statuses) {
    Completing completing(requests, count);
    if (completing.none() || completed == nullptr || indices == nullptr)
        return real::Testsome(count, requests, completed, indices, statuses);
    const Statuses seen(statuses, count);
    *completed = 0;
    const int code = real::Testsome(count, requests, completed, indices, seen);
    return completing.several(code, seen.first(*completed), indices);
}

int get_status(MPI_Request request, int* flag, MPI_Status* status) {
    const Found found = find(request);
    if (!counts(found) || flag == nullptr)
        return real::Request_get_status(request, flag, status);
    const Known known(0, found);
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
    code = real::Start(request);
    if (*request != before) {
        HostReceive receive = found.record->receive;
        leave(found);
        enter(*request, std::move(receive), true);
    }
    if (code == MPI_SUCCESS) {
        Record& record = *find(*request).record;
        record.answered = false;
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
    const Found found = request != nullptr ? find(*request) : Found{};
    const std::shared_ptr<Handle> handle = found ? found.record->handle : nullptr;
    if (handle == nullptr || !handle->persistent() || handle->operation() == nullptr)
        return real::Cancel(request);  // which asks a generalized request's cancel function
    const Hold hold;
    if (!handle->operation()->done())
        handle->operation()->cancel();
    return MPI_SUCCESS;
}

int free(MPI_Request* request) {
    const Found found = request != nullptr ? find(*request) : Found{};
    if (!found)
        return real::Request_free(request);
    const Record& record = *found.record;
    if (const std::shared_ptr<Handle> handle = record.handle) {
        leave(found);
        return handle->free(*request);
    }
    HostReceive receive = record.receive;
    const bool active = !record.persistent || record.started;
    leave(found);
    if (!active)
        return real::Request_free(request);
    abandon(*request, std::move(receive));
    *request = MPI_REQUEST_NULL;
    return MPI_SUCCESS;
}

}  // namespace swy::request::complete
