// MPIX_Recv_message. Both parts are received by matched probes under a lock, for which nobody waits long: a thread that
// finds no message releases it between two probes.
#include <fmt/format.h>

#include <new>
#include <thread>

#include "call/entry_point.hpp"
#include "ext/message/payload.hpp"
#include "progress/wait.hpp"
#include "real.hpp"
#include "settings/settings.hpp"

using namespace swy;

namespace swy::message {
namespace {

constinit Locks receive_locks;

// What has been received.
struct Found {
    int source = MPI_PROC_NULL, tag = MPI_ANY_TAG;
    std::optional<Header> header;         // none: an ordinary MPI message
    Whole whole;                          // the first part, where it is no longer than a first part of ours
    MPI_Message rest = MPI_MESSAGE_NULL;  // the payload, where it is not in `whole`
    MPI_Count bytes = 0;                  // of the payload, as received

    std::span<const std::byte> metadata() const {
        return header ? std::span<const std::byte>(whole).subspan(kHeaderBytes, header->metadata)
                      : std::span<const std::byte>();
    }
    std::span<const std::byte> payload() const {
        return std::span<const std::byte>(whole).subspan(header ? kHeaderBytes + header->metadata : 0);
    }
};

int look(int source, int tag, MPI_Comm comm, bool& there, Found& found, MPI_Message& message) {
    int flag = 0;
    MPI_Status status;
    const int rc = swy_MPI_Improbe(source, tag, comm, &flag, &message, &status);
    there = rc == MPI_SUCCESS && flag != 0;
    if (there) {
        found.source = status.MPI_SOURCE;
        found.tag = status.MPI_TAG;
        real::Get_elements_x(&status, MPI_BYTE, &found.bytes);
    }
    return rc;
}

// Receives the first part, which is in `message`, if it may be one of ours.
int open(MPI_Message& message, Found& found) {
    if (found.bytes < static_cast<MPI_Count>(kHeaderBytes) || found.bytes > static_cast<MPI_Count>(kWholeBytes)) {
        found.rest = message;
        return MPI_SUCCESS;
    }
    found.whole.resize(static_cast<std::size_t>(found.bytes));
    const int rc =
        swy_MPI_Mrecv(found.whole.data(), static_cast<int>(found.bytes), MPI_BYTE, &message, MPI_STATUS_IGNORE);
    if (rc != MPI_SUCCESS)
        return rc;
    found.header = read(found.whole);
    if (found.header && (found.header->whole() != found.whole.size() || found.header->kind == Kind::kRefused))
        found.header.reset();
    if (found.header && found.header->kind == Kind::kWithin)
        found.bytes = static_cast<MPI_Count>(found.header->bytes);
    return MPI_SUCCESS;
}

// Waits for the payload, whose sender is about to send it, or has sent it. Called under the lock.
int await_rest(MPI_Comm comm, Found& found) {
    const progress::Deadline deadline(settings::values().timeout);
    for (bool there = false; !there;) {
        if (const int rc = look(found.source, found.tag, comm, there, found, found.rest); rc != MPI_SUCCESS)
            return rc;
        if (!there && deadline.passed())
            return raise(kRecvMessage, comm, MPI_ERR_OTHER,
                         fmt::format("rank {} has announced a payload of {} bytes with tag "
                                     "{}, and {} before it came: has another receive taken it?",
                                     found.source, found.header->bytes, found.tag, deadline.why()));
        if (!there)
            std::this_thread::yield();
    }
    return MPI_SUCCESS;
}

// Probes once; takes both parts where there is a message.
int take(int source, int tag, MPI_Comm comm, bool& there, Found& found) {
    const std::scoped_lock lock(receive_locks.of(comm));
    MPI_Message message = MPI_MESSAGE_NULL;
    int rc = look(source, tag, comm, there, found, message);
    if (rc == MPI_SUCCESS && there)
        rc = open(message, found);
    if (rc == MPI_SUCCESS && found.header && found.header->kind == Kind::kFollows)
        rc = await_rest(comm, found);
    return rc;
}

// Receives the payload into the program's memory, or into the sink.
int receive_payload(const Room& room, Found& found, MPI_Comm comm) {
    if (found.rest == MPI_MESSAGE_NULL)
        return room.refused() ? MPI_SUCCESS : copy_out(room.address(), found.payload(), comm);
    if (room.refused() && room.address() == nullptr)
        return raise(kRecvMessage, comm, MPI_ERR_NO_MEM,
                     fmt::format("there is no memory for a payload of {} bytes, not even to "
                                 "drop it: its sender waits",
                                 static_cast<long long>(found.bytes)));
    const Extent extent(found.bytes);
    return swy_MPI_Mrecv(room.address(), extent.count(), extent.type(), &found.rest, MPI_STATUS_IGNORE);
}

// Raises what is wrong with a message that has been received all the same.
int complain(const Found& found, const Room& room, MPI_Comm comm) {
    const std::string from = fmt::format("what rank {} has sent with tag {}", found.source, found.tag);
    const char* left = room.refused() ? "its data are dropped, since the program's function gave no memory for them"
                                      : "its data are given as the payload";
    if (!found.header)
        return raise(kRecvMessage, comm, MPI_ERR_TYPE,
                     fmt::format("{} is no message of MPIX_Send_message; {}, {} bytes", from, left,
                                 static_cast<long long>(found.bytes)));
    if (found.header->bytes != static_cast<std::uint64_t>(found.bytes))
        return raise(kRecvMessage, comm, MPI_ERR_OTHER,
                     fmt::format("{} announced {} bytes, and a message of {} bytes followed; {}. Other threads "
                                 "must not send or receive with the same tag meanwhile",
                                 from, found.header->bytes, static_cast<long long>(found.bytes), left));
    return MPI_SUCCESS;
}

void tell(const Found& found, MPI_Status* status) {
    if (status == MPI_STATUS_IGNORE)
        return;
    status->MPI_SOURCE = found.source;
    status->MPI_TAG = found.tag;
    real::Status_set_elements_x(status, MPI_BYTE, found.bytes);
    real::Status_set_cancelled(status, 0);
}

int receive(const Incoming& to, int source, int tag, MPI_Comm comm, MPI_Status* status) {
    std::string problem;
    if (const int wrong = to.check(true, problem); wrong != MPI_SUCCESS)
        return raise(kRecvMessage, comm, wrong, problem);
    to.nothing();
    Found found;
    if (source == MPI_PROC_NULL) {
        tell(found, status);
        return MPI_SUCCESS;
    }
    for (bool there = false; !there;) {
        if (const int rc = take(source, tag, comm, there, found); rc != MPI_SUCCESS)
            return rc;
        if (!there)
            std::this_thread::yield();  // lets a thread run that waits for the lock
    }
    tell(found, status);
    const int where = found.header ? found.header->where : MPIX_MESSAGE_HOST;
    const Room room(to, found.bytes, where, found.metadata());
    int code = receive_payload(room, found, comm);
    if (const int rc = deliver_metadata(to, found.metadata(), comm); code == MPI_SUCCESS)
        code = rc;
    if (code == MPI_SUCCESS)
        code = complain(found, room, comm);
    return code != MPI_SUCCESS ? code : raise_shortage(to, room, found.metadata().size(), comm);
}

}  // namespace
}  // namespace swy::message

extern "C" SWY_EXPORT int MPIX_Recv_message(void* metadata, int max_metadata, int* metadata_bytes,
                                            MPIX_Message_allocate_function* allocate, void* extra_state, void** payload,
                                            MPI_Count* bytes, int source, int tag, MPI_Comm comm, MPI_Status* status) {
    try {
        return message::receive({.call = message::kRecvMessage,
                                 .metadata = metadata,
                                 .max_metadata = max_metadata,
                                 .metadata_bytes = metadata_bytes,
                                 .allocate = allocate,
                                 .extra_state = extra_state,
                                 .payload = payload,
                                 .bytes = bytes},
                                source, tag, comm, status);
    } catch (const std::bad_alloc&) {
        return message::raise(message::kRecvMessage, comm, MPI_ERR_NO_MEM, "no host memory left");
    }
}
