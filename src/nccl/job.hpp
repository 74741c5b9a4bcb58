// What one process queues for an operation on an NCCL communicator: for each of its members, something on the device,
// then NCCL's calls, which is one launch; perhaps further launches; at last something on the device again.
// collectives.hpp and transfer.hpp make these. Operation (operation.hpp) runs one without blocking, or puts it on a
// stream of the program's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "device/device.hpp"

namespace swy::nccl {

class Communicator;

// The ranks with which a launch exchanges data by ncclSend and ncclRecv. NCCL connects two ranks at the first of these,
// and blocks meanwhile.
struct Peers {
    std::vector<int> sends, receives;
};

// The outcome of NCCL's calls: an ncclResult_t, and for the trace their name and what they move.
struct Called {
    int result = 0;
    std::string_view name;
    std::size_t bytes = 0;
};

class Job {
  public:
    virtual ~Job() = default;
    virtual std::size_t launches() const { return 1; }
    virtual bool takes_part(std::size_t /*member*/) const { return true; }
    virtual bool uses_programs_memory() const { return true; }

    // What NCCL chooses the algorithm of its collectives by, as a number; 0: no launch has a collective of NCCL's. And
    // with which ranks a launch exchanges data otherwise.
    virtual std::uint64_t shape(const Communicator& communicator) const = 0;
    virtual void add_peers(std::size_t launch, std::size_t member, const Communicator& communicator,
                           Peers& peers) const = 0;

    // What precedes a launch on the device, and what follows the last one. They return "" or the error.
    virtual std::string before(std::size_t launch, std::size_t member, const Communicator& communicator,
                               device::Stream& device_stream) = 0;
    virtual std::string after(std::size_t member, device::Stream& device_stream) = 0;

    // Makes NCCL's calls for a member, in the member's context. With several members they are one group.
    virtual Called call(std::size_t launch, std::size_t member, const Communicator& communicator,
                        device::StreamHandle stream) = 0;
};

}  // namespace swy::nccl
