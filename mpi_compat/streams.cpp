// The wrappers of communication in the order of a CUDA stream (mpix_switchyard.h). None of them holds the reentrancy
// guard when it makes an ordinary call in place of the enqueued one.
#include <mpix_switchyard.h>

#include <string>

#include "call/depth.hpp"
#include "error/error.hpp"
#include "ext/stream/communicator.hpp"
#include "ext/stream/enqueue.hpp"
#include "ext/stream/object.hpp"
#include "mpi_compat/wrapper.hpp"
#include "progress/wait.hpp"

using namespace swy;

namespace {

int bad_argument(const char* function, const std::string& what) {
    return error::raise(Owner(), MPI_ERR_ARG, std::string(function) + ": " + what);
}

int check_up(const char* function) {
    int up = 0;
    int down = 0;
    real::Initialized(&up);
    real::Finalized(&down);
    if (up != 0 && down == 0)
        return MPI_SUCCESS;
    return error::raise(Owner(), MPI_ERR_OTHER, std::string(function) + ": call it between MPI_Init and MPI_Finalize");
}

Operand in(const void* address, MPI_Count count, MPI_Datatype type, Shape shape = Shape::kOne, At at = At::kAll) {
    return {.address = const_cast<void*>(address), .count = count, .type = type, .at = at, .shape = shape};
}

// An output operand; with `in_place` MPI reads it too.
Operand out(void* address, MPI_Count count, MPI_Datatype type, bool in_place, Shape shape = Shape::kOne,
            At at = At::kAll) {
    return {.address = address,
            .count = count,
            .type = type,
            .access = in_place ? Access::kInOut : Access::kOut,
            .at = at,
            .shape = shape};
}

// A collective with one operand for each of two buffers.
int collective(CallId id, CallId blocking, const Operand& send, const Operand& recv, MPI_Op op, int root, MPI_Comm comm,
               const stream::Ordinary& ordinary) {
    const Operand operands[] = {send, recv};
    return stream::collective(id, {.id = blocking, .owner = Owner(comm), .operands = operands, .op = op, .root = root},
                              ordinary);
}

}  // namespace

extern "C" SWY_EXPORT int MPIX_Info_set_hex(MPI_Info info, const char* key, const void* value, int value_size) {
    if (value == nullptr || value_size < 0 || value_size * 2 > MPI_MAX_INFO_VAL)
        return bad_argument("MPIX_Info_set_hex", "the value is NULL, or longer than half of MPI_MAX_INFO_VAL bytes");
    return real::Info_set(info, key, stream::in_hex(value, static_cast<std::size_t>(value_size)).c_str());
}
SWY_PAIR(MPIX_Info_set_hex)

extern "C" SWY_EXPORT int MPIX_Stream_create(MPI_Info info, MPIX_Stream* stream) {
    if (const int code = check_up("MPIX_Stream_create"); code != MPI_SUCCESS)
        return code;
    if (stream == nullptr)
        return bad_argument("MPIX_Stream_create", "the address for the stream is NULL");
    if (driver_watch::changed())
        driver_watch::refresh();
    std::string problem;
    *stream = stream::create(info, problem);
    return problem.empty() ? MPI_SUCCESS : bad_argument("MPIX_Stream_create", problem);
}
SWY_PAIR(MPIX_Stream_create)

extern "C" SWY_EXPORT int MPIX_Stream_free(MPIX_Stream* stream) {
    if (stream == nullptr)
        return bad_argument("MPIX_Stream_free", "the address of the stream is NULL");
    if (const std::string problem = stream::free(*stream); !problem.empty())
        return bad_argument("MPIX_Stream_free", problem);
    *stream = MPIX_STREAM_NULL;
    return MPI_SUCCESS;
}
SWY_PAIR(MPIX_Stream_free)

extern "C" SWY_EXPORT int MPIX_Stream_comm_create(MPI_Comm comm, MPIX_Stream stream, MPI_Comm* newcomm) {
    {
        const call::Inside guard;
        if (const int code = check_up("MPIX_Stream_comm_create"); code != MPI_SUCCESS)
            return code;
        if (newcomm == nullptr)
            return bad_argument("MPIX_Stream_comm_create", "the address for the communicator is NULL");
        if (stream != MPIX_STREAM_NULL && stream::find(stream) == nullptr)
            return bad_argument("MPIX_Stream_comm_create", "the stream has been freed");
        if (driver_watch::changed())
            driver_watch::refresh();
        if (const int code = stream::Communicator::create(comm, stream, newcomm); code != MPI_SUCCESS)
            return code;
    }
    return driver_watch::closed() ? MPI_SUCCESS : coll::on_comm_created(*newcomm);
}
SWY_PAIR(MPIX_Stream_comm_create)

extern "C" SWY_EXPORT int MPIX_Comm_get_stream(MPI_Comm comm, int idx, MPIX_Stream* stream) {
    if (stream == nullptr || idx != 0)
        return bad_argument("MPIX_Comm_get_stream", "a communicator has one stream, of index 0");
    const auto found = stream::Communicator::find(comm);
    *stream = found != nullptr ? found->stream : MPIX_STREAM_NULL;
    return MPI_SUCCESS;
}
SWY_PAIR(MPIX_Comm_get_stream)

extern "C" SWY_EXPORT int MPIX_Stream_progress(MPIX_Stream) {
    if (const int code = check_up("MPIX_Stream_progress"); code != MPI_SUCCESS)
        return code;
    progress::progress();
    return MPI_SUCCESS;
}
SWY_PAIR(MPIX_Stream_progress)

extern "C" SWY_EXPORT int MPIX_Send_enqueue(const void* buf, int count, MPI_Datatype datatype, int dest, int tag,
                                            MPI_Comm comm) {
    return stream::message({CallId::kXSendEnqueue, true, const_cast<void*>(buf), count, datatype, dest, tag, comm},
                           MPI_STATUS_IGNORE, [=] { return MPI_Send(buf, count, datatype, dest, tag, comm); });
}
SWY_PAIR(MPIX_Send_enqueue)

extern "C" SWY_EXPORT int MPIX_Recv_enqueue(void* buf, int count, MPI_Datatype datatype, int source, int tag,
                                            MPI_Comm comm, MPI_Status* status) {
    return stream::message({CallId::kXRecvEnqueue, false, buf, count, datatype, source, tag, comm}, status,
                           [=] { return MPI_Recv(buf, count, datatype, source, tag, comm, status); });
}
SWY_PAIR(MPIX_Recv_enqueue)

extern "C" SWY_EXPORT int MPIX_Isend_enqueue(const void* buf, int count, MPI_Datatype datatype, int dest, int tag,
                                             MPI_Comm comm, MPI_Request* request) {
    return stream::begin_message(
        {CallId::kXIsendEnqueue, true, const_cast<void*>(buf), count, datatype, dest, tag, comm}, request,
        [=] { return MPI_Isend(buf, count, datatype, dest, tag, comm, request); });
}
SWY_PAIR(MPIX_Isend_enqueue)

extern "C" SWY_EXPORT int MPIX_Irecv_enqueue(void* buf, int count, MPI_Datatype datatype, int source, int tag,
                                             MPI_Comm comm, MPI_Request* request) {
    return stream::begin_message({CallId::kXIrecvEnqueue, false, buf, count, datatype, source, tag, comm}, request,
                                 [=] { return MPI_Irecv(buf, count, datatype, source, tag, comm, request); });
}
SWY_PAIR(MPIX_Irecv_enqueue)

extern "C" SWY_EXPORT int MPIX_Wait_enqueue(MPI_Request* request, MPI_Status* status) {
    if (request == nullptr)
        return bad_argument("MPIX_Wait_enqueue", "the address of the request is NULL");
    return stream::wait_all("MPIX_Wait_enqueue", 1, request, status == MPI_STATUS_IGNORE ? MPI_STATUSES_IGNORE : status,
                            [=](int) { return MPI_Wait(request, status); });
}
SWY_PAIR(MPIX_Wait_enqueue)

extern "C" SWY_EXPORT int MPIX_Waitall_enqueue(int count, MPI_Request array_of_requests[],
                                               MPI_Status* array_of_statuses) {
    if (count < 0 || (count > 0 && array_of_requests == nullptr))
        return bad_argument("MPIX_Waitall_enqueue", "the count is negative, or the array of requests NULL");
    return stream::wait_all("MPIX_Waitall_enqueue", count, array_of_requests, array_of_statuses, [=](int i) {
        return MPI_Wait(&array_of_requests[i],
                        array_of_statuses == MPI_STATUSES_IGNORE ? MPI_STATUS_IGNORE : &array_of_statuses[i]);
    });
}
SWY_PAIR(MPIX_Waitall_enqueue)

extern "C" SWY_EXPORT int MPIX_Barrier_enqueue(MPI_Comm comm) {
    return stream::barrier(CallId::kXBarrierEnqueue, comm, [=] { return MPI_Barrier(comm); });
}
SWY_PAIR(MPIX_Barrier_enqueue)

extern "C" SWY_EXPORT int MPIX_Bcast_enqueue(void* buffer, int count, MPI_Datatype datatype, int root, MPI_Comm comm) {
    const Operand operands[] = {out(buffer, count, datatype, true)};
    return stream::collective(CallId::kXBcastEnqueue,
                              {.id = CallId::kBcast, .owner = Owner(comm), .operands = operands, .root = root},
                              [=] { return MPI_Bcast(buffer, count, datatype, root, comm); });
}
SWY_PAIR(MPIX_Bcast_enqueue)

extern "C" SWY_EXPORT int MPIX_Reduce_enqueue(const void* sendbuf, void* recvbuf, int count, MPI_Datatype datatype,
                                              MPI_Op op, int root, MPI_Comm comm) {
    return collective(CallId::kXReduceEnqueue, CallId::kReduce, in(sendbuf, count, datatype),
                      out(recvbuf, count, datatype, sendbuf == MPI_IN_PLACE, Shape::kOne, At::kRoot), op, root, comm,
                      [=] { return MPI_Reduce(sendbuf, recvbuf, count, datatype, op, root, comm); });
}
SWY_PAIR(MPIX_Reduce_enqueue)

extern "C" SWY_EXPORT int MPIX_Allreduce_enqueue(const void* sendbuf, void* recvbuf, int count, MPI_Datatype datatype,
                                                 MPI_Op op, MPI_Comm comm) {
    return collective(CallId::kXAllreduceEnqueue, CallId::kAllreduce, in(sendbuf, count, datatype),
                      out(recvbuf, count, datatype, sendbuf == MPI_IN_PLACE), op, MPI_PROC_NULL, comm,
                      [=] { return MPI_Allreduce(sendbuf, recvbuf, count, datatype, op, comm); });
}
SWY_PAIR(MPIX_Allreduce_enqueue)

extern "C" SWY_EXPORT int MPIX_Scan_enqueue(const void* sendbuf, void* recvbuf, int count, MPI_Datatype datatype,
                                            MPI_Op op, MPI_Comm comm) {
    return collective(CallId::kXScanEnqueue, CallId::kScan, in(sendbuf, count, datatype),
                      out(recvbuf, count, datatype, sendbuf == MPI_IN_PLACE), op, MPI_PROC_NULL, comm,
                      [=] { return MPI_Scan(sendbuf, recvbuf, count, datatype, op, comm); });
}
SWY_PAIR(MPIX_Scan_enqueue)

extern "C" SWY_EXPORT int MPIX_Exscan_enqueue(const void* sendbuf, void* recvbuf, int count, MPI_Datatype datatype,
                                              MPI_Op op, MPI_Comm comm) {
    return collective(CallId::kXExscanEnqueue, CallId::kExscan, in(sendbuf, count, datatype),
                      out(recvbuf, count, datatype, sendbuf == MPI_IN_PLACE), op, MPI_PROC_NULL, comm,
                      [=] { return MPI_Exscan(sendbuf, recvbuf, count, datatype, op, comm); });
}
SWY_PAIR(MPIX_Exscan_enqueue)

extern "C" SWY_EXPORT int MPIX_Reduce_scatter_block_enqueue(const void* sendbuf, void* recvbuf, int recvcount,
                                                            MPI_Datatype datatype, MPI_Op op, MPI_Comm comm) {
    const bool in_place = sendbuf == MPI_IN_PLACE;
    return collective(CallId::kXReduceScatterBlockEnqueue, CallId::kReduceScatterBlock,
                      in(sendbuf, recvcount, datatype, Shape::kRanksLocal),
                      out(recvbuf, recvcount, datatype, in_place, in_place ? Shape::kRanksLocal : Shape::kOne), op,
                      MPI_PROC_NULL, comm,
                      [=] { return MPI_Reduce_scatter_block(sendbuf, recvbuf, recvcount, datatype, op, comm); });
}
SWY_PAIR(MPIX_Reduce_scatter_block_enqueue)

extern "C" SWY_EXPORT int MPIX_Allgather_enqueue(const void* sendbuf, int sendcount, MPI_Datatype sendtype,
                                                 void* recvbuf, int recvcount, MPI_Datatype recvtype, MPI_Comm comm) {
    return collective(CallId::kXAllgatherEnqueue, CallId::kAllgather, in(sendbuf, sendcount, sendtype),
                      out(recvbuf, recvcount, recvtype, sendbuf == MPI_IN_PLACE, Shape::kRanks), MPI_OP_NULL,
                      MPI_PROC_NULL, comm,
                      [=] { return MPI_Allgather(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm); });
}
SWY_PAIR(MPIX_Allgather_enqueue)

extern "C" SWY_EXPORT int MPIX_Alltoall_enqueue(const void* sendbuf, int sendcount, MPI_Datatype sendtype,
                                                void* recvbuf, int recvcount, MPI_Datatype recvtype, MPI_Comm comm) {
    return collective(CallId::kXAlltoallEnqueue, CallId::kAlltoall, in(sendbuf, sendcount, sendtype, Shape::kRanks),
                      out(recvbuf, recvcount, recvtype, sendbuf == MPI_IN_PLACE, Shape::kRanks), MPI_OP_NULL,
                      MPI_PROC_NULL, comm,
                      [=] { return MPI_Alltoall(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm); });
}
SWY_PAIR(MPIX_Alltoall_enqueue)

extern "C" SWY_EXPORT int MPIX_Gather_enqueue(const void* sendbuf, int sendcount, MPI_Datatype sendtype, void* recvbuf,
                                              int recvcount, MPI_Datatype recvtype, int root, MPI_Comm comm) {
    return collective(
        CallId::kXGatherEnqueue, CallId::kGather, in(sendbuf, sendcount, sendtype),
        out(recvbuf, recvcount, recvtype, sendbuf == MPI_IN_PLACE, Shape::kRanks, At::kRoot), MPI_OP_NULL, root, comm,
        [=] { return MPI_Gather(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, root, comm); });
}
SWY_PAIR(MPIX_Gather_enqueue)

extern "C" SWY_EXPORT int MPIX_Scatter_enqueue(const void* sendbuf, int sendcount, MPI_Datatype sendtype, void* recvbuf,
                                               int recvcount, MPI_Datatype recvtype, int root, MPI_Comm comm) {
    return collective(
        CallId::kXScatterEnqueue, CallId::kScatter, in(sendbuf, sendcount, sendtype, Shape::kRanks, At::kRoot),
        out(recvbuf, recvcount, recvtype, false), MPI_OP_NULL, root, comm,
        [=] { return MPI_Scatter(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, root, comm); });
}
SWY_PAIR(MPIX_Scatter_enqueue)
