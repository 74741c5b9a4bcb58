// NCCL's operations in the order of a stream of the program's, launched and not waited for. src/stream alone uses this.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "carrier/nccl/collectives.hpp"
#include "carrier/nccl/communicator.hpp"
#include "device/device.hpp"

namespace swy::carrier::nccl {

// Has NCCL connect the ranks in the ways that most operations take: it does so when an operation first needs it, and
// waits for the other ranks meanwhile, which an enqueue call must not. All ranks make the call. "" or what went wrong.
std::string connect_all(Communicator& communicator);

// Queues a prepared collective on the lane's stream. "" or what went wrong, which the caller has the others hear of.
std::string enqueue(const Work& work, Communicator& communicator, device::Lane& lane);

// Queues messages as one operation of NCCL's, in which no order can deadlock; those between two ranks in this order.
struct Message {
    bool send;
    void* data;
    std::size_t bytes;
    int peer;
};
std::string enqueue(const std::vector<Message>& messages, Communicator& communicator, device::Lane& lane);

// Nothing behind this runs on any rank's stream before all streams have come to it.
std::string enqueue_barrier(Communicator& communicator, device::Lane& lane);

}  // namespace swy::carrier::nccl
