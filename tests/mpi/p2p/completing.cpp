// Completing requests by every completion call, in arrays that also hold null, inactive and generalized requests.
#include <algorithm>
#include <array>

#include "../pml.hpp"
#include "player.hpp"

namespace p2p_test {
namespace {

enum How { kWait, kWaitany, kWaitsome, kWaitall, kTest, kTestany, kTestsome, kTestall, kGetStatus, kHows };
constexpr const char* kNames[] = {"Wait",    "Waitany",  "Waitsome", "Waitall",           "Test",
                                  "Testany", "Testsome", "Testall",  "Request_get_status"};

int query(void*, MPI_Status* status) {
    MPI_Status_set_elements(status, MPI_BYTE, 0);
    MPI_Status_set_cancelled(status, 0);
    status->MPI_SOURCE = MPI_UNDEFINED;
    status->MPI_TAG = MPI_UNDEFINED;
    return MPI_SUCCESS;
}
int nothing(void*) {
    return MPI_SUCCESS;
}
int nothing_cancelled(void*, int) {
    return MPI_SUCCESS;
}

// One array for the completion calls: the requests asked for, and others between them that are of no consequence.
struct Array {
    std::vector<MPI_Request> requests;
    std::vector<MPI_Status> statuses;
    std::vector<Open*> opens;  // nullptr: one of the others
    MPI_Request inactive = MPI_REQUEST_NULL;

    void add(MPI_Request request, Open* open) {
        requests.push_back(request);
        opens.push_back(open);
        statuses.emplace_back();
        statuses.back().MPI_ERROR = kSentinel;
    }
    bool left() const {
        return std::any_of(opens.begin(), opens.end(), [](const Open* o) { return o != nullptr && !o->done; });
    }
    // The i-th request is complete, with this status and code.
    void completed(std::size_t i, const MPI_Status& status, int code) {
        Open* open = opens[i];
        if (open == nullptr)
            return;
        open->status = status;
        open->code = code;
        open->request = requests[i];
        open->done = true;
    }
};

bool in_status(int code) {
    int error_class = MPI_SUCCESS;
    MPI_Error_class(code, &error_class);
    return error_class == MPI_ERR_IN_STATUS;
}

template <typename Say>
int one_by_one(How how, Array& array, Say say) {
    for (std::size_t i = 0; i < array.requests.size(); ++i) {
        if (array.opens[i] == nullptr || array.opens[i]->done)
            continue;
        say(std::string(kNames[how]) + " on " + array.opens[i]->what);
        MPI_Status& status = array.statuses[i];
        MPI_Status* wanted = array.opens[i]->needs_status ? &status : MPI_STATUS_IGNORE;
        int flag = how == kWait ? 1 : 0, code = MPI_SUCCESS;
        if (how == kTest)
            while (flag == 0 && code == MPI_SUCCESS)
                code = MPI_Test(&array.requests[i], &flag, wanted);
        if (how == kGetStatus)
            while (flag == 0 && code == MPI_SUCCESS)
                code = MPI_Request_get_status(array.requests[i], &flag, wanted);
        if (how != kTest)
            code = MPI_Wait(&array.requests[i], wanted);
        array.completed(i, status, code);
    }
    return MPI_SUCCESS;
}

int any(How how, Array& array) {
    while (array.left()) {
        MPI_Status status{};
        status.MPI_ERROR = kSentinel;
        int index = MPI_UNDEFINED, flag = 1, code = MPI_SUCCESS;
        const int count = static_cast<int>(array.requests.size());
        if (how == kWaitany)
            code = MPI_Waitany(count, array.requests.data(), &index, &status);
        else
            code = MPI_Testany(count, array.requests.data(), &index, &flag, &status);
        if (index != MPI_UNDEFINED && (flag != 0 || code != MPI_SUCCESS))
            array.completed(static_cast<std::size_t>(index), status, code);
        else if (flag != 0 || code != MPI_SUCCESS)
            return code;  // none is active, or nobody knows which failed: the caller finds some not done
    }
    return MPI_SUCCESS;
}

int some(How how, Array& array) {
    const std::size_t size = array.requests.size();
    while (array.left()) {
        std::vector<int> indices(size);
        std::vector<MPI_Status> statuses(size);
        int found = 0;
        for (MPI_Status& status : statuses)
            status.MPI_ERROR = kSentinel;
        const int code = (how == kWaitsome ? MPI_Waitsome : MPI_Testsome)(static_cast<int>(size), array.requests.data(),
                                                                          &found, indices.data(), statuses.data());
        if (found == MPI_UNDEFINED || (code != MPI_SUCCESS && !in_status(code)))
            return code;
        for (std::size_t i = 0; i < static_cast<std::size_t>(found); ++i)
            array.completed(static_cast<std::size_t>(indices[i]), statuses[i],
                            code == MPI_SUCCESS ? MPI_SUCCESS : statuses[i].MPI_ERROR);
    }
    return MPI_SUCCESS;
}

// With MPI_ERR_IN_STATUS, the ones that are neither done nor failed have MPI_ERR_PENDING (MPI 4.0 section 3.7.5).
int all(How how, Array& array, bool ignore) {
    const int count = static_cast<int>(array.requests.size());
    while (array.left()) {
        MPI_Status* statuses = ignore ? MPI_STATUSES_IGNORE : array.statuses.data();
        int flag = how == kWaitall ? 1 : 0, code = MPI_SUCCESS;
        if (how == kWaitall)
            code = MPI_Waitall(count, array.requests.data(), statuses);
        while (flag == 0 && code == MPI_SUCCESS)
            code = MPI_Testall(count, array.requests.data(), &flag, statuses);
        if (code != MPI_SUCCESS && !in_status(code))
            return code;
        for (std::size_t i = 0; i < array.requests.size(); ++i) {
            const int here = code == MPI_SUCCESS ? MPI_SUCCESS : array.statuses[i].MPI_ERROR;
            if (here != MPI_ERR_PENDING && (array.opens[i] == nullptr || !array.opens[i]->done))
                array.completed(i, array.statuses[i], here);
        }
    }
    return MPI_SUCCESS;
}

}  // namespace

void Player::complete(std::vector<Open*> wanted) {
    std::erase_if(wanted, [](const Open* open) { return open->done; });
    if (wanted.empty())
        return;
    Array array;
    if (dice_.one_in(4)) {  // a persistent receive that nobody has started
        MPI_Recv_init(nullptr, 0, MPI_BYTE, MPI_PROC_NULL, kNobodysTag, stage_.comm, &array.inactive);
        array.add(array.inactive, nullptr);
    }
    MPI_Request generalized = MPI_REQUEST_NULL;
    const bool with_generalized = dice_.one_in(4);
    for (Open* open : wanted) {
        if (dice_.one_in(6))
            array.add(MPI_REQUEST_NULL, nullptr);
        array.add(open->request, open);
    }
    if (with_generalized) {
        MPI_Grequest_start(query, nothing, nothing_cancelled, nullptr, &generalized);
        MPI_Grequest_complete(generalized);
        array.add(generalized, nullptr);
    }
    const bool ignore = std::none_of(wanted.begin(), wanted.end(), [](const Open* o) { return o->needs_status; });
    auto how = static_cast<How>(dice_.below(kHows));
    // Where one request of several has failed, Open MPI 4.1.4 frees others that are still active; over UCX MPI_Waitall
    // does so too.
    if (std::any_of(wanted.begin(), wanted.end(), [](const Open* o) { return o->cut; }))
        how = dice_.one_in(2) && !mpi_test::over("ucx") ? kWaitall : kWait;
    say(std::string(kNames[how]) + " on " + std::to_string(wanted.size()) + " requests, the first: " + wanted[0]->what);
    int code = MPI_SUCCESS;
    if (how == kWaitany || how == kTestany)
        code = any(how, array);
    else if (how == kWaitsome || how == kTestsome)
        code = some(how, array);
    else if (how == kWaitall || how == kTestall)
        code = all(how, array, ignore);
    else
        code = one_by_one(how, array, [this](const std::string& what) { say(what); });
    for (Open* open : wanted) {
        open->by = kNames[how];
        if (!open->done)
            fail(std::string(kNames[how]) + " did not complete " + open->what + ": code " + std::to_string(code));
        open->done = true;
        if (!open->persistent && open->request != MPI_REQUEST_NULL && open->code == MPI_SUCCESS)
            fail(std::string(kNames[how]) + " left the handle of " + open->what);
    }
    for (std::size_t i = 0; i < array.requests.size(); ++i)
        if (array.opens[i] == nullptr && array.requests[i] != MPI_REQUEST_NULL && array.requests[i] != array.inactive)
            MPI_Wait(&array.requests[i], MPI_STATUS_IGNORE);  // the generalized one, where its turn did not come
    if (array.inactive != MPI_REQUEST_NULL)
        MPI_Request_free(&array.inactive);
}

void Player::complete_all(bool soon_only) {
    std::vector<Open*> pending;
    for (Open& open : opens_)
        if (!open.done && (open.soon || !soon_only))
            pending.push_back(&open);
    for (std::size_t i = pending.size(); i > 1; --i)
        std::swap(pending[i - 1], pending[static_cast<std::size_t>(dice_.below(static_cast<int>(i)))]);
    while (!pending.empty()) {
        const auto part = static_cast<std::size_t>(1 + dice_.below(static_cast<int>(pending.size())));
        complete({pending.end() - static_cast<std::ptrdiff_t>(part), pending.end()});
        pending.resize(pending.size() - part);
    }
}

}  // namespace p2p_test
