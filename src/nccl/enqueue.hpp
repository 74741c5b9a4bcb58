// NCCL operations in the order of one of the program's streams: launched and not waited for. Only src/ext/stream uses
// this.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "device/device.hpp"
#include "nccl/collectives.hpp"
#include "nccl/communicator.hpp"

namespace swy::nccl {

// Has NCCL connect the ranks in the ways that most operations need: NCCL otherwise does so when an operation first
// needs it and waits for the other ranks meanwhile, which an enqueue call must not. All ranks make the call. Returns ""
// or the error.
std::string connect_all(Communicator& communicator);

// Queues a prepared collective on the stream. Returns "" or the error; the caller tells the other ranks of it.
std::string enqueue(const Work& work, Communicator& communicator, device::Stream& device_stream);

// Queues messages as one NCCL group, in which no order can deadlock; messages between the same two ranks match in this
// order.
struct Message {
    bool send;
    void* data;
    std::size_t bytes;
    int peer;
};
std::string enqueue(const std::vector<Message>& messages, Communicator& communicator, device::Stream& device_stream);

// Queues a barrier: nothing queued behind it runs on any rank's stream before all ranks' streams have reached it.
std::string enqueue_barrier(Communicator& communicator, device::Stream& device_stream);

}  // namespace swy::nccl
