// Blocking collectives on device memory over NCCL: prepare() holds every local test and comes before the agreement,
// run() after it. The router calls; nothing here decides or agrees.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "carrier/nccl/communicator.hpp"
#include "datatype/layout.hpp"
#include "datatype/reduce_work.hpp"
#include "device/device.hpp"
#include "device/scratch.hpp"
#include "route/call.hpp"
#include "route/reason.hpp"

namespace swy::carrier::nccl {

// Adjacent bytes that go to or come from a rank.
struct Block {
    std::byte* data;
    std::size_t bytes;
    int peer;
};

struct Copy {
    void* to;
    const void* from;
    std::size_t bytes;                // of a row
    std::size_t rows = 1, pitch = 0;  // from one row to the next, on both sides
};

// Elements whose packed form NCCL moves: `count` of a layout at `address`, MPI's.
struct Packing {
    std::shared_ptr<const datatype::Layout> layout;
    std::size_t count;
    std::uintptr_t address;
    std::byte* packed;
};

// What is queued on the stream together: copies, then reductions by kernels one after the other, then one group of
// NCCL's sends and receives.
struct Stage {
    std::vector<Copy> copies;
    std::vector<datatype::ReduceWork> reductions;
    std::vector<Block> sends, receives;
};

// One collective in NCCL's terms. `count` is NCCL's: elements of `type` per rank for allgather, alltoall and
// reduce_scatter_block.
struct Work {
    CallId id{};
    const void* send = nullptr;  // equals recv where MPI has MPI_IN_PLACE
    void* recv = nullptr;
    bool in_place = false;
    std::size_t count = 0, type_bytes = 0;
    const int* counts =
        nullptr;  // MPI's, by rank, where they may differ (MPI_Reduce_scatter); `count` then is this rank's
    std::size_t per_element = 1;  // NCCL elements in one of MPI's
    int type = 0, op = 0;         // ncclDataType_t, ncclRedOp_t
    int root = 0;
    device::Location location;
    device::Scratch scratch;

    // Of the collectives that move blocks of different sizes (exchange.cpp): what this rank sends and receives, and
    // what it copies to itself before. Of MPI_Allgatherv, `receives` has a block of every rank with data.
    std::vector<Block> sends, receives;
    std::vector<Copy> copies;

    // Of types that are not contiguous (packing.cpp): what is done before all else, and after.
    std::vector<Packing> packs, unpacks;
    device::Scratch packed;

    // Of the reductions that NCCL lacks (kernel_reduction.cpp): all that is done, in this order. Else empty.
    std::vector<Stage> stages;
    device::Kernel kernel{};

    std::size_t bytes() const { return count * type_bytes; }
};

// Can this rank's part of the call go over NCCL, and with which resources? kNone: yes, and `work` holds all that run()
// needs. All data that this rank has is known to be device memory; where it has none, `work.location` stays without
// device. `size` and `rank` are the communicator's.
Reason prepare(const Call& call, int rank, int size, Work& work);

// Launches and completes the call. "" or what went wrong: the communicator then is aborted, and the other ranks, which
// wait for this one, are told.
std::string run(const Work& work, Communicator& communicator);

}  // namespace swy::carrier::nccl
