// The data of one operand of an enqueued call as adjacent bytes in memory of the stream's device, wherever and however
// the program has it. What is needed for that is queued on the stream, before and after NCCL's part; memory is had in
// the stream's order. All of this is the rank's own affair: what NCCL is given does not differ.
#pragma once

#include <mpi.h>

#include <atomic>
#include <cstddef>
#include <list>
#include <memory>
#include <string>

#include "datatype/layout.hpp"
#include "device/device.hpp"
#include "device/scratch.hpp"
#include "route/call.hpp"

namespace swy::stream {

class Communicator;

// Copies between pageable memory of the program and page-locked memory, made by functions of the host's at their place
// in the stream's order: a copy of CUDA's would be made at once, or have the host wait. Each lives until the stream is
// past it.
struct HostCopy {
    device::Pinned pinned;
    void* program = nullptr;
    std::size_t bytes = 0;
    std::atomic<bool> done{false};
};
class HostCopies {
  public:
    HostCopy* add();  // the ones that are done go
    void abandon();   // their functions may still come, after an error

  private:
    std::list<HostCopy> all_;
};

class Brought {
  public:
    // `count` elements of `type` at `address`. A reduction's elements keep the gaps that they have. `kernels`: types
    // that kernels pack are packed by them. "" or what went wrong.
    struct What {
        void* address;
        std::size_t count;
        MPI_Datatype type;
        Access access;
        bool elements, kernels;
    };
    std::string bring(Communicator& comm, const What& what);

    // Is the first byte of such data in memory of the stream's device, where NCCL and kernels take it?
    static bool is_here(const Communicator& comm, const void* first);

    // Where its bytes are now, and whether that is as the program has them.
    std::byte* data() const { return data_; }
    std::size_t bytes() const { return bytes_; }
    bool as_it_was() const { return how_ == How::kAsIs; }
    bool packed() const { return how_ == How::kKernel || how_ == How::kWaiting; }

    std::string in(Communicator& comm);   // queues what comes before
    std::string out(Communicator& comm);  // and after; where there is no other way, waits for the stream

  private:
    enum class How : std::uint8_t {
        kAsIs,
        kKernel,      // packed by a kernel
        kCopied,      // adjacent in other memory than the device's, copied by the stream
        kByFunction,  // in pageable memory: copied by functions of the host's
        kWaiting,     // else: packed through host memory, by the host
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
