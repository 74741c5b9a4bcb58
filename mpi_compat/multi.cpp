// The extension's calls on several buffers of a process: MPIX_Allreduce_multi and the like.
#include <mpix_switchyard.h>

#include "call/depth.hpp"
#include "ext/multi/collective.hpp"
#include "ext/multi/messages.hpp"
#include "mpi_compat/wrapper.hpp"

using namespace swy;

namespace {

// Opens the driver watch: the wrappers of completion calls complete our requests, and are the real functions while the
// watch is closed. The program may also have loaded a driver since MPI_Init.
void open_gate() {
    if (driver_watch::changed())
        driver_watch::refresh();
    driver_watch::open();
}

int run(const multi::ListCall& call) {
    open_gate();
    const call::Inside guard;
    return multi::collective(call);
}

int send(const multi::Message& message) {
    open_gate();
    return multi::send(message);
}

int receive(const multi::Message& message) {
    open_gate();
    return multi::receive(message);
}

// A list of buffers that MPI only reads.
void* const* readable(const void* const buffers[]) {
    return const_cast<void* const*>(buffers);  // NOLINT(cppcoreguidelines-pro-type-const-cast)
}

}  // namespace

extern "C" {

SWY_EXPORT int MPIX_Bcast_multi(void* const buffers[], int nbufs, int count, MPI_Datatype datatype, int root,
                                MPI_Comm comm) {
    return run({CallId::kXBcastMulti, CallId::kBcast, nullptr, buffers, nbufs, count, datatype, count, datatype,
                MPI_OP_NULL, root, comm, nullptr});
}

SWY_EXPORT int MPIX_Ibcast_multi(void* const buffers[], int nbufs, int count, MPI_Datatype datatype, int root,
                                 MPI_Comm comm, MPI_Request* request) {
    return run({CallId::kXIbcastMulti, CallId::kBcast, nullptr, buffers, nbufs, count, datatype, count, datatype,
                MPI_OP_NULL, root, comm, request});
}

SWY_EXPORT int MPIX_Reduce_multi(const void* const sendbufs[], void* const recvbufs[], int nbufs, int count,
                                 MPI_Datatype datatype, MPI_Op op, int root, MPI_Comm comm) {
    return run({CallId::kXReduceMulti, CallId::kReduce, sendbufs, recvbufs, nbufs, count, datatype, count, datatype, op,
                root, comm, nullptr});
}

SWY_EXPORT int MPIX_Ireduce_multi(const void* const sendbufs[], void* const recvbufs[], int nbufs, int count,
                                  MPI_Datatype datatype, MPI_Op op, int root, MPI_Comm comm, MPI_Request* request) {
    return run({CallId::kXIreduceMulti, CallId::kReduce, sendbufs, recvbufs, nbufs, count, datatype, count, datatype,
                op, root, comm, request});
}

SWY_EXPORT int MPIX_Allreduce_multi(const void* const sendbufs[], void* const recvbufs[], int nbufs, int count,
                                    MPI_Datatype datatype, MPI_Op op, MPI_Comm comm) {
    return run({CallId::kXAllreduceMulti, CallId::kAllreduce, sendbufs, recvbufs, nbufs, count, datatype, count,
                datatype, op, MPI_PROC_NULL, comm, nullptr});
}

SWY_EXPORT int MPIX_Iallreduce_multi(const void* const sendbufs[], void* const recvbufs[], int nbufs, int count,
                                     MPI_Datatype datatype, MPI_Op op, MPI_Comm comm, MPI_Request* request) {
    return run({CallId::kXIallreduceMulti, CallId::kAllreduce, sendbufs, recvbufs, nbufs, count, datatype, count,
                datatype, op, MPI_PROC_NULL, comm, request});
}

SWY_EXPORT int MPIX_Reduce_scatter_block_multi(const void* const sendbufs[], void* const recvbufs[], int nbufs,
                                               int recvcount, MPI_Datatype datatype, MPI_Op op, MPI_Comm comm) {
    return run({CallId::kXReduceScatterBlockMulti, CallId::kReduceScatterBlock, sendbufs, recvbufs, nbufs, recvcount,
                datatype, recvcount, datatype, op, MPI_PROC_NULL, comm, nullptr});
}

SWY_EXPORT int MPIX_Ireduce_scatter_block_multi(const void* const sendbufs[], void* const recvbufs[], int nbufs,
                                                int recvcount, MPI_Datatype datatype, MPI_Op op, MPI_Comm comm,
                                                MPI_Request* request) {
    return run({CallId::kXIreduceScatterBlockMulti, CallId::kReduceScatterBlock, sendbufs, recvbufs, nbufs, recvcount,
                datatype, recvcount, datatype, op, MPI_PROC_NULL, comm, request});
}

SWY_EXPORT int MPIX_Allgather_multi(const void* const sendbufs[], void* const recvbufs[], int nbufs, int sendcount,
                                    MPI_Datatype sendtype, int recvcount, MPI_Datatype recvtype, MPI_Comm comm) {
    return run({CallId::kXAllgatherMulti, CallId::kAllgather, sendbufs, recvbufs, nbufs, sendcount, sendtype, recvcount,
                recvtype, MPI_OP_NULL, MPI_PROC_NULL, comm, nullptr});
}

SWY_EXPORT int MPIX_Iallgather_multi(const void* const sendbufs[], void* const recvbufs[], int nbufs, int sendcount,
                                     MPI_Datatype sendtype, int recvcount, MPI_Datatype recvtype, MPI_Comm comm,
                                     MPI_Request* request) {
    return run({CallId::kXIallgatherMulti, CallId::kAllgather, sendbufs, recvbufs, nbufs, sendcount, sendtype,
                recvcount, recvtype, MPI_OP_NULL, MPI_PROC_NULL, comm, request});
}

SWY_EXPORT int MPIX_Alltoall_multi(const void* const sendbufs[], void* const recvbufs[], int nbufs, int sendcount,
                                   MPI_Datatype sendtype, int recvcount, MPI_Datatype recvtype, MPI_Comm comm) {
    return run({CallId::kXAlltoallMulti, CallId::kAlltoall, sendbufs, recvbufs, nbufs, sendcount, sendtype, recvcount,
                recvtype, MPI_OP_NULL, MPI_PROC_NULL, comm, nullptr});
}

SWY_EXPORT int MPIX_Ialltoall_multi(const void* const sendbufs[], void* const recvbufs[], int nbufs, int sendcount,
                                    MPI_Datatype sendtype, int recvcount, MPI_Datatype recvtype, MPI_Comm comm,
                                    MPI_Request* request) {
    return run({CallId::kXIalltoallMulti, CallId::kAlltoall, sendbufs, recvbufs, nbufs, sendcount, sendtype, recvcount,
                recvtype, MPI_OP_NULL, MPI_PROC_NULL, comm, request});
}

SWY_EXPORT int MPIX_Send_multi(const void* const buffers[], int nbufs, int count, MPI_Datatype datatype, int dest,
                               int tag, MPI_Comm comm) {
    return send({CallId::kXSendMulti, readable(buffers), nbufs, count, datatype, dest, tag, comm, nullptr, nullptr});
}

SWY_EXPORT int MPIX_Isend_multi(const void* const buffers[], int nbufs, int count, MPI_Datatype datatype, int dest,
                                int tag, MPI_Comm comm, MPI_Request* request) {
    return send({CallId::kXIsendMulti, readable(buffers), nbufs, count, datatype, dest, tag, comm, nullptr, request});
}

SWY_EXPORT int MPIX_Recv_multi(void* const buffers[], int nbufs, int count, MPI_Datatype datatype, int source, int tag,
                               MPI_Comm comm, MPI_Status* status) {
    return receive({CallId::kXRecvMulti, buffers, nbufs, count, datatype, source, tag, comm, status, nullptr});
}

SWY_EXPORT int MPIX_Irecv_multi(void* const buffers[], int nbufs, int count, MPI_Datatype datatype, int source, int tag,
                                MPI_Comm comm, MPI_Request* request) {
    return receive({CallId::kXIrecvMulti, buffers, nbufs, count, datatype, source, tag, comm, nullptr, request});
}

}  // extern "C"
