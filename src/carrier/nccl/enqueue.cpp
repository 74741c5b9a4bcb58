#include "carrier/nccl/enqueue.hpp"

#include <fmt/format.h>

#include <mutex>

#include "carrier/nccl/launch.hpp"
#include "carrier/nccl/library.hpp"
#include "device/scratch.hpp"
#include "report/trace.hpp"
#include "settings/settings.hpp"

namespace swy::carrier::nccl {
namespace {

// With more ranks, two of them are connected by their first message: the memory that NCCL takes for a peer is the
// program's decision then.
constexpr int kAllConnected = 16;

// What NCCL takes other algorithms for: the latency of few bytes, the bandwidth of many.
constexpr std::size_t kFew = 4, kMany = 4u << 20;

// NCCL puts an operation on the stream when it returns, but where it has to connect ranks first: it goes on in the
// background then, and what the program queues next must come behind. `call` gets the handle and the stream.
template <typename Call>
std::string launch(Communicator& communicator, device::Lane& lane, std::string_view name, std::size_t bytes,
                   Call call) {
    const request::Deadline deadline(settings::values().timeout);
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
            lane.launched(name, bytes, started.time);
    }
    return communicator.settle(result, deadline);
}

std::string reduce_all(Communicator& communicator, device::Lane& lane, void* data, std::size_t bytes) {
    return launch(communicator, lane, "ncclAllReduce", bytes, [&](const Entries& nccl) {
        return nccl.AllReduce(data, data, bytes, ncclInt8, ncclMax, communicator.handle(), lane.stream());
    });
}

}  // namespace

std::string connect_all(Communicator& communicator) {
    device::Lane& lane = communicator.lane();
    device::Scratch scratch;
    if (const device::Result got = device::Scratch::acquire(communicator.context(), kMany, scratch); got != 0)
        return fmt::format("no device memory to connect the ranks with: {}", device::describe(got));
    void* data = scratch.data();
    std::string failure = reduce_all(communicator, lane, data, kFew);
    if (failure.empty())
        failure = reduce_all(communicator, lane, data, kMany);
    if (failure.empty())
        failure = launch(communicator, lane, "ncclBroadcast", kFew, [&](const Entries& nccl) {
            return nccl.Broadcast(data, data, kFew, ncclInt8, 0, communicator.handle(), lane.stream());
        });
    std::vector<Message> greetings;
    for (int peer = 0; peer < communicator.size() && communicator.size() <= kAllConnected; ++peer)
        if (peer != communicator.rank())
            for (const bool send : {true, false})
                greetings.push_back({send, nullptr, 0, peer});
    if (failure.empty())
        failure = enqueue(greetings, communicator, lane);
    return failure.empty() ? communicator.finish(request::Deadline(settings::values().timeout)) : failure;
}

std::string enqueue(const Work& work, Communicator& communicator, device::Lane& lane) {
    const request::Deadline deadline(settings::values().timeout);
    std::string failure;
    for (std::size_t i = 0; i < launches_of(work) && failure.empty(); ++i) {
        failure = before_launch(work, i, communicator.size(), lane);
        int result = ncclSuccess;
        if (failure.empty()) {
            const auto lock = communicator.hold_handle();
            if (!communicator.usable())
                return communicator.why_unusable();
            const device::ContextScope scope(communicator.context());
            result = launch_collective(work, i, communicator, lane);
        }
        if (failure.empty())
            failure = communicator.settle(result, deadline);
    }
    return failure.empty() ? after_launches(work, lane) : failure;
}

std::string enqueue(const std::vector<Message>& messages, Communicator& communicator, device::Lane& lane) {
    if (messages.empty())
        return {};
    std::size_t bytes = 0;
    for (const Message& message : messages)
        bytes += message.bytes;
    return launch(communicator, lane, "ncclGroup", bytes, [&](const Entries& nccl) {
        GroupCall group(nccl);
        for (const Message& m : messages)
            group.add(m.send ? nccl.Send(m.data, m.bytes, ncclInt8, m.peer, communicator.handle(), lane.stream())
                             : nccl.Recv(m.data, m.bytes, ncclInt8, m.peer, communicator.handle(), lane.stream()));
        return group.end();
    });
}

std::string enqueue_barrier(Communicator& communicator, device::Lane& lane) {
    device::Scratch scratch;
    if (const device::Result got = device::Scratch::acquire(communicator.context(), kFew, scratch); got != 0)
        return fmt::format("no device memory for a barrier: {}", device::describe(got));
    return reduce_all(communicator, lane, scratch.data(), kFew);
}

}  // namespace swy::carrier::nccl
