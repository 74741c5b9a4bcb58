// MPIX_Send_message. It does not wait between the two parts, and holds no lock while it waits for anything.
#include <fmt/format.h>

#include <new>

#include "call/entry_point.hpp"
#include "ext/message/payload.hpp"
#include "real.hpp"

using namespace swy;

namespace swy::message {
namespace {

constinit Locks send_locks;

int begin(const Whole& whole, const Header& header, const Outgoing& from, const Extent& extent, int dest, int tag,
          MPI_Comm comm, MPI_Request (&parts)[2]) {
    const std::scoped_lock lock(send_locks.of(comm));
    int rc = swy_MPI_Isend(whole.data(), static_cast<int>(header.whole()), MPI_BYTE, dest, tag, comm, &parts[0]);
    if (rc != MPI_SUCCESS || header.kind == Kind::kWithin)
        return rc;
    rc = swy_MPI_Isend(from.payload, extent.count(), extent.type(), dest, tag, comm, &parts[1]);
    // The receiver waits for the payload, and finds that it has another size than announced.
    if (rc != MPI_SUCCESS)
        real::Send(nullptr, 0, MPI_BYTE, dest, tag, comm);
    return rc;
}

int send(const Outgoing& from, int dest, int tag, MPI_Comm comm) {
    std::string problem;
    if (const int wrong = from.check(problem); wrong != MPI_SUCCESS)
        return raise(kSendMessage, comm, wrong, problem);
    if (dest == MPI_PROC_NULL)
        return MPI_SUCCESS;
    Header header;
    Whole whole;
    if (const int rc = compose(from, comm, header, whole); rc != MPI_SUCCESS)
        return rc;
    const Extent extent(header.kind == Kind::kWithin ? 0 : from.bytes);
    MPI_Request parts[] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    int code = begin(whole, header, from, extent, dest, tag, comm, parts);
    for (MPI_Request& part : parts)
        if (part != MPI_REQUEST_NULL)
            if (const int rc = swy_MPI_Wait(&part, MPI_STATUS_IGNORE); code == MPI_SUCCESS)
                code = rc;
    return code;
}

}  // namespace
}  // namespace swy::message

extern "C" SWY_EXPORT int MPIX_Send_message(const void* metadata, int metadata_bytes, const void* payload,
                                            MPI_Count bytes, int dest, int tag, MPI_Comm comm) {
    try {
        return message::send({metadata, metadata_bytes, payload, bytes}, dest, tag, comm);
    } catch (const std::bad_alloc&) {
        return message::raise(message::kSendMessage, comm, MPI_ERR_NO_MEM, "no host memory left");
    }
}
