// The data of one operand of an enqueued call as adjacent bytes in memory of the stream's device, wherever and however
// the program has it. What this takes is queued on the stream, before and after NCCL's part; memory is allocated in the
// stream's order. All of this is local to the rank: what NCCL is given does not depend on it.
#pragma once

#include <mpi.h>

#include <atomic>
#include <cstddef>
#include <list>
#include <memory>
#include <string>

#include "call/call.hpp"
#include "datatype/layout.hpp"
#include "device/device.hpp"
#include "device/scratch.hpp"

namespace swy::stream {

class Communicator;

// A copy between pageable memory of the program and page-locked memory, made by a host function at its position in the
// stream's order: a CUDA copy would be made at once, or make the host wait. It exists until the stream has passed it.
struct HostCopy {
    device::Pinned pinned;
    void* program = nullptr;
    std::size_t bytes = 0;
    std::atomic<bool> done{false};
};
class HostCopies {
  public:
    HostCopy* add();  // also frees those that are done

  private:
    std::list<HostCopy> all_;
};

class StagedOperand {
  public:
    // The operand: `count` elements of `type` at `address`. `elements`: those of a reduction, which keep their gaps.
    // `kernels`: types for which there are pack kernels are packed by them. stage() returns "" or the error.
    struct What {
        void* address;
        std::size_t count;
        MPI_Datatype type;
        Access access;
        bool elements, kernels;
    };
    std::string stage(Communicator& comm, const What& what);

    // Tells whether the first byte of such data is in memory of the stream's device, where NCCL and kernels can use it.
    static bool is_here(const Communicator& comm, const void* first);

    // Where the bytes are now, and whether they are the program's own.
    std::byte* data() const { return data_; }
    std::size_t bytes() const { return bytes_; }
    bool packed() const { return how_ == How::kKernel || how_ == How::kWaiting; }

    std::string in(Communicator& comm);   // queues what precedes NCCL's part
    std::string out(Communicator& comm);  // queues what follows it; waits for the stream where there is no other way

  private:
    enum class How : std::uint8_t {
        kAsIs,
        kKernel,      // packed by a kernel
        kCopied,      // adjacent in memory other than the device's; copied by the stream
        kByFunction,  // in pageable memory; copied by host functions
        kWaiting,     // otherwise: packed through host memory, by the host
    };
    How choose(Communicator& comm);
    std::string pack(Communicator& comm);
    std::string unpack(Communicator& comm);
    std::string kernel(Communicator& comm, bool in);

    What what_{};
    How how_ = How::kAsIs;
    std::shared_ptr<const datatype::Layout> layout_;
    std::byte* program_ = nullptr;  // first byte of data
    std::byte* data_ = nullptr;
    std::size_t bytes_ = 0;
    device::Scratch scratch_;
    device::Pinned pinned_;
};

}  // namespace swy::stream
