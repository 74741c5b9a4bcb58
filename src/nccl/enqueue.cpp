#include "nccl/enqueue.hpp"

#include <fmt/format.h>

#include <mutex>

#include "device/scratch.hpp"
#include "nccl/launch.hpp"
#include "nccl/library.hpp"
#include "report/trace.hpp"
#include "settings/settings.hpp"

namespace swy::nccl {
namespace {

// With more ranks, two of them are connected by their first message: the program then decides how much memory NCCL
// takes for peers.
constexpr int kAllConnected = 16;

// Sizes for which NCCL chooses different algorithms: the latency of few bytes, the bandwidth of many.
constexpr std::size_t kFew = 4, kMany = 4u << 20;

// Launches an operation by `call`, which gets the handle and the stream. NCCL has put the operation on the stream when
// it returns, except where it has to connect ranks first: then it continues in the background, and this waits, since
// what the program queues next must come behind.
template <typename Call>
std::string launch(Communicator& communicator, device::Stream& device_stream, std::string_view name, std::size_t bytes,
                   Call call) {
    const progress::Deadline deadline(settings::values().timeout);
    ncclResult_t result = ncclSuccess;
    {
        const auto lock = communicator.hold_handle();
        if (!communicator.usable())
            return communicator.why_unusable();
        const device::ContextScope scope(communicator.context());
        const report::trace::Started started;
        const std::scoped_lock one(launch_mutex);
        result = call(*load());
        if (report::trace::on)
            device_stream.launched(name, bytes, started.time);
    }
    return communicator.wait_launched(result, deadline);
}

std::string reduce_all(Communicator& communicator, device::Stream& device_stream, void* data, std::size_t bytes) {
    return launch(communicator, device_stream, "ncclAllReduce", bytes, [&](const Entries& nccl) {
        return nccl.AllReduce(data, data, bytes, ncclInt8, ncclMax, communicator.handle(), device_stream.stream());
    });
}

}  // namespace

std::string connect_all(Communicator& communicator) {
    device::Stream& device_stream = communicator.device_stream();
    device::Scratch scratch;
    if (const device::Result got = device::Scratch::acquire(communicator.context(), kMany, scratch); got != 0)
        return fmt::format("no device memory to connect the ranks with: {}", device::describe(got));
    void* data = scratch.data();
    std::string failure = reduce_all(communicator, device_stream, data, kFew);
    if (failure.empty())
        failure = reduce_all(communicator, device_stream, data, kMany);
    if (failure.empty())
        failure = launch(communicator, device_stream, "ncclBroadcast", kFew, [&](const Entries& nccl) {
            return nccl.Broadcast(data, data, kFew, ncclInt8, 0, communicator.handle(), device_stream.stream());
        });
    std::vector<Message> greetings;
    for (int peer = 0; peer < communicator.size() && communicator.size() <= kAllConnected; ++peer)
        if (peer != communicator.rank())
            for (const bool send : {true, false})
                greetings.push_back({send, nullptr, 0, peer});
    if (failure.empty())
        failure = enqueue(greetings, communicator, device_stream);
    return failure.empty() ? communicator.finish(progress::Deadline(settings::values().timeout)) : failure;
}

std::string enqueue(const Work& work, Communicator& communicator, device::Stream& device_stream) {
    const progress::Deadline deadline(settings::values().timeout);
    std::string failure;
    for (std::size_t i = 0; i < launches_of(work) && failure.empty(); ++i) {
        failure = before_launch(work, i, communicator.size(), device_stream);
        int result = ncclSuccess;
        if (failure.empty()) {
            const auto lock = communicator.hold_handle();
            if (!communicator.usable())
                return communicator.why_unusable();
            const device::ContextScope scope(communicator.context());
            result = launch_collective(work, i, communicator, device_stream);
        }
        if (failure.empty())
            failure = communicator.wait_launched(result, deadline);
    }
    return failure.empty() ? after_launches(work, device_stream) : failure;
}

std::string enqueue(const std::vector<Message>& messages, Communicator& communicator, device::Stream& device_stream) {
    if (messages.empty())
        return {};
    std::size_t bytes = 0;
    for (const Message& message : messages)
        bytes += message.bytes;
    return launch(communicator, device_stream, "ncclGroup", bytes, [&](const Entries& nccl) {
        GroupCall group(nccl);
        for (const Message& m : messages)
            group.add(
                m.send ? nccl.Send(m.data, m.bytes, ncclInt8, m.peer, communicator.handle(), device_stream.stream())
                       : nccl.Recv(m.data, m.bytes, ncclInt8, m.peer, communicator.handle(), device_stream.stream()));
        return group.end();
    });
}

std::string enqueue_barrier(Communicator& communicator, device::Stream& device_stream) {
    device::Scratch scratch;
    if (const device::Result got = device::Scratch::acquire(communicator.context(), kFew, scratch); got != 0)
        return fmt::format("no device memory for a barrier: {}", device::describe(got));
    return reduce_all(communicator, device_stream, scratch.data(), kFew);
}

}  // namespace swy::nccl
