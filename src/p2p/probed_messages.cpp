#include "p2p/probed_messages.hpp"

#include <algorithm>
#include <list>
#include <map>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "comm/job_messages.hpp"
#include "comm/state.hpp"
#include "fastpath/message.hpp"
#include "p2p/point_to_point.hpp"
#include "p2p/service.hpp"
#include "real.hpp"

namespace swy::p2p {
namespace {

std::map<MPI_Comm, std::list<ProbedMessage>>& all() {
    static auto* lists = new std::map<MPI_Comm, std::list<ProbedMessage>>;  // not destroyed at exit
    return *lists;
}

std::map<MPI_Message, ProbedMessage>& given() {
    static auto* messages = new std::map<MPI_Message, ProbedMessage>;
    return *messages;
}

// Communicators by message handles, which MPI reuses: there are no more than messages have been matched at one time.
struct FoundOn {
    std::mutex mutex;
    std::unordered_map<MPI_Message, MPI_Comm> comms;
};
FoundOn& all_found() {
    static auto* found = new FoundOn;
    return *found;
}

std::list<ProbedMessage>::iterator first_match(std::list<ProbedMessage>& list, int source, int tag) {
    auto it = list.begin();
    while (it != list.end() &&
           !((source == MPI_ANY_SOURCE || it->source == source) && (tag == MPI_ANY_TAG || it->tag == tag)))
        ++it;
    return it;
}

}  // namespace

void remember(MPI_Message message, MPI_Comm comm) {
    comm::of(comm);  // tracks the communicator, so that the receive can tell whether it still exists
    const std::scoped_lock lock(all_found().mutex);
    all_found().comms[message] = comm;
}

MPI_Comm found_on(MPI_Message message) {
    const std::scoped_lock lock(all_found().mutex);
    const auto found = all_found().comms.find(message);
    return found != all_found().comms.end() && comm::lives(found->second) ? found->second : MPI_COMM_NULL;
}

const ProbedMessage* find_probed(MPI_Comm comm, int source, int tag) {
    const auto list = all().find(comm);
    if (list == all().end())
        return nullptr;
    const auto it = first_match(list->second, source, tag);
    return it == list->second.end() ? nullptr : &*it;
}

std::optional<ProbedMessage> claim_probed(MPI_Comm comm, int source, int tag) {
    const auto list = all().find(comm);
    if (list == all().end())
        return std::nullopt;
    const auto it = first_match(list->second, source, tag);
    if (it == list->second.end())
        return std::nullopt;
    ProbedMessage taken = std::move(*it);
    list->second.erase(it);
    if (list->second.empty())
        all().erase(list);
    fastpath::probed_messages.fetch_sub(1, std::memory_order_relaxed);
    return taken;
}

int open(MPI_Message& message, const MPI_Status& status, ProbedMessage& taken) {
    taken.source = status.MPI_SOURCE;
    taken.tag = status.MPI_TAG;
    taken.bytes = status._ucount;
    if (taken.bytes != call::kEnvelopeBytes) {
        taken.message = std::exchange(message, MPI_MESSAGE_NULL);
        return MPI_SUCCESS;
    }
    taken.payload.resize(call::kEnvelopeBytes);
    // A message this short has come whole when it is matched, whatever its mode.
    const int rc = real::Mrecv(taken.payload.data(), call::kEnvelopeBytes, MPI_BYTE, &message, MPI_STATUS_IGNORE);
    if (rc != MPI_SUCCESS)
        return rc;
    taken.envelope = call::read(taken.payload, secret());
    if (taken.envelope)
        taken.bytes = taken.envelope->bytes;
    return MPI_SUCCESS;
}

int probe_through(MPI_Comm comm, int source, int tag) {
    for (;;) {
        int there = 0;
        MPI_Message message = MPI_MESSAGE_NULL;
        MPI_Status status;
        int rc = real::Improbe(source, MPI_ANY_TAG, comm, &there, &message, &status);
        if (rc != MPI_SUCCESS || !there)
            return rc;
        ProbedMessage taken;
        rc = open(message, status, taken);
        if (rc != MPI_SUCCESS)
            return rc;
        const int found = taken.tag;
        all()[comm].push_back(std::move(taken));
        fastpath::probed_messages.fetch_add(1, std::memory_order_relaxed);
        if (found == tag)
            return MPI_SUCCESS;
    }
}

// The handle is a real one, of an empty message from this process to itself, because Fortran and tools may look at it.
int give(ProbedMessage taken, MPI_Message* message) {
    if (taken.message != MPI_MESSAGE_NULL) {
        *message = taken.message;
        return MPI_SUCCESS;
    }
    const MPI_Comm comm = comm::control_communicator();
    MPI_Request request = MPI_REQUEST_NULL;
    int rc = real::Isend(nullptr, 0, MPI_BYTE, own_rank(), comm::kHandleTag, comm, &request);
    if (rc == MPI_SUCCESS)
        rc = real::Request_free(&request);
    int there = 0;
    while (rc == MPI_SUCCESS && !there)
        rc = real::Improbe(own_rank(), comm::kHandleTag, comm, &there, message, MPI_STATUS_IGNORE);
    if (rc == MPI_SUCCESS) {
        given()[*message] = std::move(taken);
        fastpath::probed_messages.fetch_add(1, std::memory_order_relaxed);
    }
    return rc;
}

std::optional<ProbedMessage> claim(MPI_Message* message) {
    const auto it = given().find(*message);
    if (it == given().end())
        return std::nullopt;
    ProbedMessage taken = std::move(it->second);
    given().erase(it);
    fastpath::probed_messages.fetch_sub(1, std::memory_order_relaxed);
    real::Mrecv(nullptr, 0, MPI_BYTE, message, MPI_STATUS_IGNORE);
    return taken;
}

bool is_given(MPI_Message message) {
    return given().contains(message);
}

bool is_probed(int sender, std::uint64_t id) {
    const auto is = [&](const ProbedMessage& taken) {
        return taken.envelope && static_cast<int>(taken.envelope->sender) == sender && taken.envelope->id == id;
    };
    return std::any_of(all().begin(), all().end(),
                       [&](const auto& list) { return std::any_of(list.second.begin(), list.second.end(), is); }) ||
           std::any_of(given().begin(), given().end(), [&](const auto& message) { return is(message.second); });
}

void forget_probed(MPI_Comm comm) {
    const auto list = all().find(comm);
    if (list == all().end())
        return;
    fastpath::probed_messages.fetch_sub(static_cast<int>(list->second.size()), std::memory_order_relaxed);
    all().erase(list);
}

void forget_probed() {
    all().clear();
    given().clear();
    {
        const std::scoped_lock lock(all_found().mutex);
        all_found().comms.clear();
    }
    fastpath::probed_messages.store(0, std::memory_order_relaxed);
}

}  // namespace swy::p2p
