// Collectives, sends and receives, groups.
#include <cinttypes>

#include "vgpu/nccl/debug.hpp"
#include "vgpu/nccl/entry.hpp"
#include "vgpu/nccl/group.hpp"
#include "vgpu/nccl/settings.hpp"

using namespace vgpu::nccl;

namespace {

// A call as the program makes it, before it is checked.
struct Request {
    Kind kind;
    const void* send;
    void* recv;
    std::size_t count;
    ncclDataType_t type;
    ncclRedOp_t op = ncclSum;
    int root = -1;
    ncclComm_t communicator;
    cudaStream_t stream;
};

ncclResult_t check_root(const Request& request, const Communicator& communicator) {
    if (!rooted(request.kind) && !point_to_point(request.kind))
        return ncclSuccess;
    if (request.root >= 0 && request.root < communicator.ranks)
        return ncclSuccess;
    warn("%s : invalid root %d (root should be in the 0..%d range)", name_of(request.kind) + 4, request.root,
         communicator.ranks);
    return ncclInvalidArgument;
}

ncclResult_t take_operator(const Request& request, Communicator& communicator, Task& task) {
    if (!reduces(request.kind))
        return ncclSuccess;
    if (request.op >= 0 && request.op < ncclNumOps) {
        task.call.op = static_cast<std::uint8_t>(request.op);
        return ncclSuccess;
    }
    const std::lock_guard guard(communicator.lock);
    const auto found = communicator.operators.find(static_cast<int>(request.op));
    if (found == communicator.operators.end()) {
        warn("%s : reduction operation %d unknown to this communicator", name_of(request.kind) + 4,
             static_cast<int>(request.op));
        return ncclInvalidArgument;
    }
    if (found->second.type != request.type) {
        warn("%s : reduction operation %d was made for %s", name_of(request.kind) + 4, static_cast<int>(request.op),
             type_name(found->second.type));
        return ncclInvalidArgument;
    }
    task.call.op = kPreMulSum;
    task.op = found->second;
    return ncclSuccess;
}

ncclResult_t check_pointers(const Task& task) {
    if (!settings().check_pointers)
        return ncclSuccess;
    const Communicator& communicator = *task.communicator;
    const Extent extent = extent_of(task.call, communicator.rank_view());
    const char* const name = name_of(task.call.kind) + 4;
    ncclResult_t result = ncclSuccess;
    if (extent.send > 0)
        result = check_pointer(task.send, communicator.device, name, "sendbuff");
    if (result == ncclSuccess && extent.recv > 0)
        result = check_pointer(task.recv, communicator.device, name, "recvbuff");
    return result;
}

// Of one rank NCCL's kernels for floats of 8 bits are missing: host code asks for __CUDA_ARCH__ (2.24 to 2.30,
// onerank.cu).
bool has_no_kernel(const Request& request, const Communicator& communicator) {
    return communicator.ranks == 1 && request.type >= ncclFloat8e4m3 && reduces(request.kind) && request.count > 0 &&
           request.op >= ncclAvg;
}

ncclResult_t prepare(const Request& request, Task& task) {
    ncclResult_t result = communicator_of(request.communicator, name_of(request.kind), task.communicator);
    if (result == ncclSuccess)
        result = task.communicator->ready();
    if (result == ncclSuccess)
        result = check_root(request, *task.communicator);
    if (result != ncclSuccess)
        return result;
    const bool newer = request.type >= ncclFloat8e4m3 && settings().version < NCCL_VERSION(2, 24, 0);
    if (size_of(request.type) == 0 || newer || has_no_kernel(request, *task.communicator)) {
        warn("%s : invalid type %d", name_of(request.kind) + 4, static_cast<int>(request.type));
        return ncclInvalidArgument;
    }
    result = take_operator(request, *task.communicator, task);
    task.call.kind = request.kind;
    task.call.comm = task.communicator->id;
    task.call.count = request.count;
    task.call.type = static_cast<std::uint8_t>(request.type);
    task.call.rank = task.communicator->rank;
    task.call.root = request.root;
    task.send = request.send;
    task.recv = request.recv;
    task.stream = request.stream;
    return result == ncclSuccess ? check_pointers(task) : result;
}

ncclResult_t operate(const Request& request, const char* function, int since = 0) {
    const Entry entry = enter(function, since);
    if (entry.result != ncclSuccess)
        return group_check(entry.result);
    Task task;
    task.hang = entry.hang;
    const ncclResult_t result = prepare(request, task);
    if (result != ncclSuccess)
        return group_check(result);
    info("%s: opCount %" PRIx64
         " sendbuff %p recvbuff %p count %zu datatype %d op %d root %d comm %p [nranks=%d] stream %p",
         function + 4, task.call.serial, request.send, request.recv, request.count, request.type, request.op,
         request.root, static_cast<void*>(request.communicator), task.communicator->ranks,
         static_cast<void*>(request.stream));
    // NCCL does nothing for a collective without elements.
    if (request.count == 0 && !point_to_point(request.kind) && !entry.hang)
        return ncclSuccess;
    return submit(std::move(task));
}

}  // namespace

VGPU_NCCL_API ncclResult_t ncclAllReduce(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
                                         ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
    return operate({Kind::AllReduce, sendbuff, recvbuff, count, datatype, op, -1, comm, stream}, "ncclAllReduce");
}
VGPU_NCCL_API ncclResult_t ncclReduce(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
                                      ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream) {
    return operate({Kind::Reduce, sendbuff, recvbuff, count, datatype, op, root, comm, stream}, "ncclReduce");
}
VGPU_NCCL_API ncclResult_t ncclBroadcast(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
                                         int root, ncclComm_t comm, cudaStream_t stream) {
    return operate({Kind::Broadcast, sendbuff, recvbuff, count, datatype, ncclSum, root, comm, stream},
                   "ncclBroadcast");
}
VGPU_NCCL_API ncclResult_t ncclBcast(void* buff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm,
                                     cudaStream_t stream) {
    return operate({Kind::Broadcast, buff, buff, count, datatype, ncclSum, root, comm, stream}, "ncclBcast");
}
VGPU_NCCL_API ncclResult_t ncclAllGather(const void* sendbuff, void* recvbuff, size_t sendcount,
                                         ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream) {
    return operate({Kind::AllGather, sendbuff, recvbuff, sendcount, datatype, ncclSum, -1, comm, stream},
                   "ncclAllGather");
}
VGPU_NCCL_API ncclResult_t ncclReduceScatter(const void* sendbuff, void* recvbuff, size_t recvcount,
                                             ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                                             cudaStream_t stream) {
    return operate({Kind::ReduceScatter, sendbuff, recvbuff, recvcount, datatype, op, -1, comm, stream},
                   "ncclReduceScatter");
}
VGPU_NCCL_API ncclResult_t ncclAlltoAll(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
                                        ncclComm_t comm, cudaStream_t stream) {
    return operate({Kind::AlltoAll, sendbuff, recvbuff, count, datatype, ncclSum, -1, comm, stream}, "ncclAlltoAll",
                   NCCL_VERSION(2, 28, 0));
}
VGPU_NCCL_API ncclResult_t ncclGather(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
                                      int root, ncclComm_t comm, cudaStream_t stream) {
    return operate({Kind::Gather, sendbuff, recvbuff, count, datatype, ncclSum, root, comm, stream}, "ncclGather",
                   NCCL_VERSION(2, 28, 0));
}
VGPU_NCCL_API ncclResult_t ncclScatter(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
                                       int root, ncclComm_t comm, cudaStream_t stream) {
    return operate({Kind::Scatter, sendbuff, recvbuff, count, datatype, ncclSum, root, comm, stream}, "ncclScatter",
                   NCCL_VERSION(2, 28, 0));
}
VGPU_NCCL_API ncclResult_t ncclSend(const void* sendbuff, size_t count, ncclDataType_t datatype, int peer,
                                    ncclComm_t comm, cudaStream_t stream) {
    return operate({Kind::Send, sendbuff, nullptr, count, datatype, ncclSum, peer, comm, stream}, "ncclSend");
}
VGPU_NCCL_API ncclResult_t ncclRecv(void* recvbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm,
                                    cudaStream_t stream) {
    return operate({Kind::Recv, nullptr, recvbuff, count, datatype, ncclSum, peer, comm, stream}, "ncclRecv");
}

VGPU_NCCL_API ncclResult_t ncclGroupStart() {
    const ncclResult_t result = enter_at_once("ncclGroupStart");
    return result == ncclSuccess ? group_start() : result;
}

VGPU_NCCL_API ncclResult_t ncclGroupEnd() {
    // An injected error ends the group as one of its own would.
    group_check(enter_at_once("ncclGroupEnd"));
    log_group();
    return group_end();
}

VGPU_NCCL_ALIAS(ncclResult_t, ncclAllReduce, const void*, void*, size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t,
                cudaStream_t);
VGPU_NCCL_ALIAS(ncclResult_t, ncclReduce, const void*, void*, size_t, ncclDataType_t, ncclRedOp_t, int, ncclComm_t,
                cudaStream_t);
VGPU_NCCL_ALIAS(ncclResult_t, ncclBroadcast, const void*, void*, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t);
VGPU_NCCL_ALIAS(ncclResult_t, ncclBcast, void*, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t);
VGPU_NCCL_ALIAS(ncclResult_t, ncclAllGather, const void*, void*, size_t, ncclDataType_t, ncclComm_t, cudaStream_t);
VGPU_NCCL_ALIAS(ncclResult_t, ncclReduceScatter, const void*, void*, size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t,
                cudaStream_t);
VGPU_NCCL_ALIAS(ncclResult_t, ncclAlltoAll, const void*, void*, size_t, ncclDataType_t, ncclComm_t, cudaStream_t);
VGPU_NCCL_ALIAS(ncclResult_t, ncclGather, const void*, void*, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t);
VGPU_NCCL_ALIAS(ncclResult_t, ncclScatter, const void*, void*, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t);
VGPU_NCCL_ALIAS(ncclResult_t, ncclSend, const void*, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t);
VGPU_NCCL_ALIAS(ncclResult_t, ncclRecv, void*, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t);
VGPU_NCCL_ALIAS(ncclResult_t, ncclGroupStart, );
VGPU_NCCL_ALIAS(ncclResult_t, ncclGroupEnd, );
