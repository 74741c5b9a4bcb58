#include "vgpu/nccl/operation.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <mutex>

#include "vgpu/nccl/debug.hpp"
#include "vgpu/nccl/executor.hpp"
#include "vgpu/nccl/multiprocessors.hpp"
#include "vgpu/nccl/settings.hpp"
#include "vgpu/newer_cuda.h"
#include "vgpu/private.h"

namespace vgpu::nccl {
namespace {

void log(const Task& task, const char* phase) {
    const Call& call = task.call;
    char text[256];
    const int length = std::snprintf(
        text, sizeof text,
        "\"serial\": %llu, \"count\": %llu, \"bytes\": %llu, \"type\": \"%s\", \"stream\": \"0x%llx\"",
        static_cast<unsigned long long>(call.serial), static_cast<unsigned long long>(call.count),
        static_cast<unsigned long long>(call.count * size_of(static_cast<ncclDataType_t>(call.type))),
        type_name(call.type), static_cast<unsigned long long>(reinterpret_cast<std::uintptr_t>(task.stream)));
    std::string more(text, static_cast<std::size_t>(length));
    if (reduces(call.kind))
        more += std::string(", \"reduction\": \"") + op_name(call.op) + "\"";
    if (rooted(call.kind) || point_to_point(call.kind))
        more += std::string(point_to_point(call.kind) ? ", \"peer\": " : ", \"root\": ") + std::to_string(call.root);
    task.communicator->log(name_of(call.kind), phase, more);
}

constexpr const char* kIllegal = "illegal address, memory that the device cannot use,";

bool own(const Task& task) {
    return point_to_point(task.call.kind) && task.call.root == task.communicator->rank;
}

// Everything of one communicator in one group.
class Launch {
  public:
    explicit Launch(std::vector<Task> tasks) : tasks_(std::move(tasks)), communicator_(tasks_.front().communicator) {}

    // `accepted`: the stream owns this object from then on, which may be gone already.
    ncclResult_t enqueue(bool& accepted);

  private:
    ncclResult_t launch_on(const std::vector<CUstream>& streams, bool& accepted);
    ncclResult_t capture_on(const std::vector<CUstream>& streams, bool& accepted);
    void take_place();
    static void* launch_again(void* captured);
    static void forget(void* captured) { delete static_cast<Launch*>(captured); }
    static void CUDA_CB run_on_stream(void* launch);
    void run();
    Outcome run_tasks();
    Outcome run_collective(const Task& task);
    Outcome run_transfers(const std::vector<const Task*>& transfers);
    bool resolve(const Task& task, Buffers& buffers);
    bool scale(const Task& task, Buffers& buffers, std::vector<std::byte>& scaled);
    bool refuse(const Task& task, const char* error, const char* what, const void* address, std::size_t bytes);
    std::vector<CUstream> streams() const;
    static ncclResult_t join(const std::vector<CUstream>& streams, bool before);

    std::vector<Task> tasks_;
    CommunicatorPtr communicator_;
    std::uint64_t ticket_ = 0;
    int ctas_ = 0;
};

std::vector<CUstream> Launch::streams() const {
    std::vector<CUstream> all;
    for (const Task& task : tasks_)
        if (std::find(all.begin(), all.end(), task.stream) == all.end())
            all.push_back(task.stream);
    return all;
}

// The operation runs on the first stream, which waits for the others before it; they wait for it afterwards.
ncclResult_t Launch::join(const std::vector<CUstream>& streams, bool before) {
    CUevent event = nullptr;
    ncclResult_t result =
        streams.size() > 1 ? checked(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), "cuEventCreate") : ncclSuccess;
    if (!before && event != nullptr && result == ncclSuccess)
        result = checked(cuEventRecord(event, streams[0]), "cuEventRecord");
    for (std::size_t i = 1; i < streams.size() && result == ncclSuccess; ++i) {
        if (before)
            result = checked(cuEventRecord(event, streams[i]), "cuEventRecord");
        if (result == ncclSuccess)
            result = checked(cuStreamWaitEvent(before ? streams[0] : streams[i], event, 0), "cuStreamWaitEvent");
    }
    if (event != nullptr)
        cuEventDestroy(event);
    return result;
}

ncclResult_t Launch::enqueue(bool& accepted) {
    const CommunicatorPtr communicator = communicator_;
    const Current current(communicator->device.context);
    const std::vector<CUstream> all = streams();
    std::vector<cuuint64_t> ids;
    for (const CUstream stream : all) {
        CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
        cuuint64_t& id = ids.emplace_back(0);  // of the stream's capture
        const ncclResult_t result =
            checked(cuStreamGetCaptureInfo_v3(stream, &status, &id, nullptr, nullptr, nullptr, nullptr),
                    "cuStreamGetCaptureInfo");
        if (result != ncclSuccess)
            return result;
        if (id != ids.front()) {
            warn("the streams of a group's calls on one communicator must all be captured into one graph, or none");
            return ncclInvalidUsage;
        }
    }
    ctas_ = ctas_of(*communicator, std::any_of(tasks_.begin(), tasks_.end(),
                                               [](const Task& task) { return !point_to_point(task.call.kind); }));
    const ncclResult_t result = ids.front() != 0 ? capture_on(all, accepted) : launch_on(all, accepted);
    return result == ncclSuccess ? join(all, false) : result;
}

// Called while the launch is queued, whose order in the family this is.
void Launch::take_place() {
    ticket_ = communicator_->family->ticket_lock().next_ticket();
    for (Task& task : tasks_) {
        task.call.serial = communicator_->next_serial();
        log(task, "launch");
    }
    communicator_->operation_launched();
}

ncclResult_t Launch::launch_on(const std::vector<CUstream>& streams, bool& accepted) {
    const CommunicatorPtr communicator = communicator_;  // this may be gone as soon as it is queued
    TicketLock& order = communicator->family->ticket_lock();
    const std::lock_guard guard(order.launching());
    ncclResult_t result = join(streams, true);
    if (result != ncclSuccess)
        return result;
    take_place();
    result =
        checked(static_cast<CUresult>(vgpu_launch_kernel(streams[0], &Launch::run_on_stream, this)), "cuLaunchKernel");
    if (result != ncclSuccess) {
        communicator->operation_ended();
        return result;
    }
    order.take_ticket();
    accepted = true;
    return ncclSuccess;
}

// The graph owns this object, of which each of its launches makes another.
ncclResult_t Launch::capture_on(const std::vector<CUstream>& streams, bool& accepted) {
    const ncclResult_t result = join(streams, true);
    if (result != ncclSuccess)
        return result;
    accepted = true;
    return checked(static_cast<CUresult>(vgpu_capture_kernel(streams[0], &launch_again, &run_on_stream, &forget, this)),
                   "cuLaunchKernel");
}

void* Launch::launch_again(void* captured) {
    auto launch = std::make_unique<Launch>(*static_cast<Launch*>(captured));
    TicketLock& order = launch->communicator_->family->ticket_lock();
    const std::lock_guard guard(order.launching());
    launch->take_place();
    order.take_ticket();
    return launch.release();
}

void Launch::run_on_stream(void* launch) {
    const std::unique_ptr<Launch> self(static_cast<Launch*>(launch));
    set_debug_device(self->communicator_->device.ordinal);
    self->run();
    self->communicator_->operation_ended();
}

void Launch::run() {
    TicketLock& order = communicator_->family->ticket_lock();
    if (!order.enter(ticket_))
        return;
    const Multiprocessors room(*communicator_, ctas_);
    const Outcome outcome = run_tasks();
    if (outcome == Outcome::Failed)
        communicator_->fail(communicator_->family->error());
    order.leave();
}

Outcome Launch::run_tasks() {
    Family& family = *communicator_->family;
    if (family.halted())
        return Outcome::Halted;
    if (family.ended())
        return Outcome::Failed;
    std::vector<const Task*> transfers;
    for (const Task& task : tasks_)
        if (task.hang) {
            log(task, "start");
            return wait_for_halt(family);
        }
    for (const Task& task : tasks_) {
        if (point_to_point(task.call.kind)) {
            transfers.push_back(&task);
            continue;
        }
        const Outcome outcome = run_collective(task);
        if (outcome != Outcome::Done)
            return outcome;
    }
    return transfers.empty() ? Outcome::Done : run_transfers(transfers);
}

Outcome Launch::run_collective(const Task& task) {
    log(task, "start");
    Buffers buffers;
    Reduction how;
    std::vector<std::byte> scaled;
    if (!resolve(task, buffers) || !scale(task, buffers, scaled))
        return Outcome::Failed;
    if (reduces(task.call.kind))
        how = reduction(static_cast<ncclDataType_t>(task.call.type),
                        task.call.op == kPreMulSum ? static_cast<int>(ncclSum) : task.call.op, communicator_->ranks);
    Step step;
    lay_out(step, task.call, communicator_->rank_view(), buffers, how);
    const Outcome outcome = execute(*communicator_->family, step);
    if (outcome == Outcome::Done)
        log(task, "end");
    return outcome;
}

Outcome Launch::run_transfers(const std::vector<const Task*>& transfers) {
    Step step;
    std::vector<Buffers> own_sends;
    std::size_t received = 0;
    for (const Task* task : transfers) {
        log(*task, "start");
        Buffers buffers;
        if (!resolve(*task, buffers))
            return Outcome::Failed;
        if (!own(*task))
            lay_out_transfer(step, task->call, communicator_->rank_view(), buffers);
        else if (task->call.kind == Kind::Send)
            own_sends.push_back(buffers);
    }
    for (const Task* task : transfers) {
        if (!own(*task) || task->call.kind != Kind::Recv)
            continue;
        Buffers buffers;
        resolve(*task, buffers);
        const std::size_t bytes = extent_of(task->call, communicator_->rank_view()).recv;
        if (bytes > 0)
            std::memmove(buffers.recv, own_sends[received].send, bytes);
        ++received;
    }
    const Outcome outcome = execute(*communicator_->family, step);
    if (outcome == Outcome::Done)
        for (const Task* task : transfers)
            log(*task, "end");
    return outcome;
}

bool Launch::resolve(const Task& task, Buffers& buffers) {
    const Extent extent = extent_of(task.call, communicator_->rank_view());
    const auto alias = [](const void* address, std::size_t bytes) {
        return bytes == 0 ? nullptr
                          : static_cast<std::byte*>(vgpu_alias(reinterpret_cast<unsigned long long>(address), bytes));
    };
    buffers.send = alias(task.send, extent.send);
    buffers.recv = alias(task.recv, extent.recv);
    const std::size_t whole = reduces(task.call.kind) ? size_of(static_cast<ncclDataType_t>(task.call.type)) : 1;
    for (const void* address : {static_cast<const void*>(task.send), static_cast<const void*>(task.recv)})
        if (extent.send + extent.recv > 0 && reinterpret_cast<std::uintptr_t>(address) % whole != 0)
            return refuse(task, "misaligned address", "a buffer", address, whole);
    if (buffers.send == nullptr && extent.send > 0)
        return refuse(task, kIllegal, "sendbuff", task.send, extent.send);
    if (buffers.recv == nullptr && extent.recv > 0)
        return refuse(task, kIllegal, "recvbuff", task.recv, extent.recv);
    return true;
}

// With an operator of the program's own each rank multiplies its elements by its own scalar before they leave.
bool Launch::scale(const Task& task, Buffers& buffers, std::vector<std::byte>& scaled) {
    if (task.call.op != kPreMulSum || !reduces(task.call.kind))
        return true;
    const auto type = static_cast<ncclDataType_t>(task.call.type);
    const void* scalar = task.op.scalar.bytes;
    if (task.op.device_scalar != nullptr)
        scalar = vgpu_alias(reinterpret_cast<unsigned long long>(task.op.device_scalar), size_of(type));
    if (scalar == nullptr)
        return refuse(task, kIllegal, "the operator's scalar", task.op.device_scalar, size_of(type));
    scaled.resize(extent_of(task.call, communicator_->rank_view()).send);
    multiply(type, scaled.data(), buffers.send, scaled.size() / size_of(type), scalar);
    buffers.send = scaled.data();
    return true;
}

// A GPU would report this error, and its context would be lost.
bool Launch::refuse(const Task& task, const char* error, const char* what, const void* address, std::size_t bytes) {
    char text[400];
    std::snprintf(text, sizeof text, "rank %d: %s in %s: %s, %zu bytes at %p", communicator_->rank, error,
                  describe(task.call).c_str(), what, bytes, address);
    report(text);
    warn("%s", text);
    communicator_->family->fail(ncclUnhandledCudaError, true);
    return false;
}

}  // namespace

ncclResult_t check_own_transfers(const std::vector<Task>& tasks) {
    std::vector<std::size_t> sends;
    std::vector<std::size_t> receives;
    for (const Task& task : tasks)
        if (own(task))
            (task.call.kind == Kind::Send ? sends : receives)
                .push_back(task.call.count * size_of(static_cast<ncclDataType_t>(task.call.type)));
    if (sends == receives)
        return ncclSuccess;
    warn("%s", sends.size() == receives.size()  ? "Send to self and its recv have different sizes"
               : sends.size() > receives.size() ? "Trying to send to self without a matching recv"
                                                : "Trying to recv to self without a matching send");
    return ncclInvalidUsage;
}

ncclResult_t launch(std::vector<Task> tasks) {
    auto operation = std::make_unique<Launch>(std::move(tasks));
    Launch* const raw = operation.release();
    bool owned_by_stream = false;
    const ncclResult_t result = raw->enqueue(owned_by_stream);
    if (!owned_by_stream)
        delete raw;
    return result;
}

}  // namespace vgpu::nccl
