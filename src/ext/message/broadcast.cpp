// MPIX_Bcast_message: a broadcast of fixed size says what is sent, and a second one transports the payload where it was
// too large for the first. On an intercommunicator there are always two: the root's own group is told of neither, and
// all ranks must make the same calls.
#include <fmt/format.h>

#include <new>

#include "call/entry_point.hpp"
#include "ext/message/payload.hpp"
#include "real.hpp"

using namespace swy;

namespace swy::message {
namespace {

bool is_inter(MPI_Comm comm) {
    int inter = 0;
    real::Comm_test_inter(comm, &inter);
    return inter != 0;
}

// In the payload's place, where there is none.
int broadcast_nothing(int root, MPI_Comm comm) {
    return is_inter(comm) ? swy_MPI_Bcast(nullptr, 0, MPI_BYTE, root, comm) : MPI_SUCCESS;
}

int broadcast_whole(Whole& whole, int root, MPI_Comm comm) {
    whole.resize(kWholeBytes);
    return swy_MPI_Bcast(whole.data(), static_cast<int>(kWholeBytes), MPI_BYTE, root, comm);
}

int give(const Outgoing& from, int root, MPI_Comm comm) {
    std::string problem;
    const int wrong = from.check(problem);
    Header header{.kind = Kind::kRefused};
    Whole whole(kWholeBytes);
    int code = wrong == MPI_SUCCESS ? compose(from, comm, header, whole) : wrong;
    if (code != MPI_SUCCESS)  // the other ranks wait for the broadcast
        write({.kind = Kind::kRefused}, std::span(whole).first<kHeaderBytes>());
    int rc = broadcast_whole(whole, root, comm);
    if (rc == MPI_SUCCESS && (wrong != MPI_SUCCESS || code != MPI_SUCCESS || header.kind == Kind::kWithin))
        rc = broadcast_nothing(root, comm);
    if (wrong != MPI_SUCCESS)
        return raise(kBcastMessage, comm, wrong, problem);
    if (code != MPI_SUCCESS || rc != MPI_SUCCESS || header.kind == Kind::kWithin)
        return code != MPI_SUCCESS ? code : rc;
    const Extent extent(from.bytes);
    return swy_MPI_Bcast(const_cast<void*>(from.payload), extent.count(), extent.type(), root, comm);
}

int receive_payload(const Room& room, const Header& header, std::span<const std::byte> whole, int root, MPI_Comm comm) {
    if (header.kind == Kind::kWithin) {
        const int rc = broadcast_nothing(root, comm);
        return rc != MPI_SUCCESS || room.refused()
                   ? rc
                   : copy_out(room.address(), whole.subspan(header.whole() - header.bytes, header.bytes), comm);
    }
    if (room.address() == nullptr)
        return raise(kBcastMessage, comm, MPI_ERR_NO_MEM,
                     fmt::format("there is no memory for a payload of {} bytes, not even to "
                                 "drop it: the other ranks wait",
                                 header.bytes));
    const Extent extent(static_cast<MPI_Count>(header.bytes));
    return swy_MPI_Bcast(room.address(), extent.count(), extent.type(), root, comm);
}

int get(const Incoming& to, int root, MPI_Comm comm) {
    to.nothing();
    Whole whole;
    if (const int rc = broadcast_whole(whole, root, comm); rc != MPI_SUCCESS)
        return rc;
    if (root == MPI_PROC_NULL)
        return broadcast_nothing(root, comm);
    const std::optional<Header> header = read(whole);
    if (!header || header->kind == Kind::kRefused) {
        broadcast_nothing(root, comm);
        return raise(
            kBcastMessage, comm, header ? MPI_ERR_ARG : MPI_ERR_OTHER,
            fmt::format("rank {}, the root, {}", root,
                        header ? "could not send its message: its own error says why" : "has made another call"));
    }
    const auto metadata = std::span<const std::byte>(whole).subspan(kHeaderBytes, header->metadata);
    const Room room(to, static_cast<MPI_Count>(header->bytes), header->where, metadata);
    int code = receive_payload(room, *header, whole, root, comm);
    if (const int rc = deliver_metadata(to, metadata, comm); code == MPI_SUCCESS)
        code = rc;
    return code != MPI_SUCCESS ? code : raise_shortage(to, room, metadata.size(), comm);
}

int am_root(int root, MPI_Comm comm, bool& yes) {
    int inter = 0;
    int rank = MPI_PROC_NULL;
    int rc = real::Comm_test_inter(comm, &inter);
    if (rc == MPI_SUCCESS && inter == 0)
        rc = real::Comm_rank(comm, &rank);
    yes = root == (inter != 0 ? MPI_ROOT : rank);
    return rc;
}

int broadcast(const Incoming& to, int root, MPI_Comm comm) {
    bool giving = false;
    if (const int rc = am_root(root, comm, giving); rc != MPI_SUCCESS)
        return rc;
    std::string problem;
    if (const int wrong = to.check(!giving, problem); wrong != MPI_SUCCESS)
        return raise(kBcastMessage, comm, wrong, problem);
    return giving ? give({to.metadata, *to.metadata_bytes, *to.payload, *to.bytes}, root, comm) : get(to, root, comm);
}

}  // namespace
}  // namespace swy::message

extern "C" SWY_EXPORT int MPIX_Bcast_message(void* metadata, int max_metadata, int* metadata_bytes,
                                             MPIX_Message_allocate_function* allocate, void* extra_state,
                                             void** payload, MPI_Count* bytes, int root, MPI_Comm comm) {
    try {
        return message::broadcast({.call = message::kBcastMessage,
                                   .metadata = metadata,
                                   .max_metadata = max_metadata,
                                   .metadata_bytes = metadata_bytes,
                                   .allocate = allocate,
                                   .extra_state = extra_state,
                                   .payload = payload,
                                   .bytes = bytes},
                                  root, comm);
    } catch (const std::bad_alloc&) {
        return message::raise(message::kBcastMessage, comm, MPI_ERR_NO_MEM, "no host memory left");
    }
}
