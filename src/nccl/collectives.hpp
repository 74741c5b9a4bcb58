// Collectives on device memory over NCCL: prepare() makes every local test and comes before the agreement, the job that
// collective() makes is run after it (operation.hpp). Nothing here chooses a route or agrees.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "call/call.hpp"
#include "call/reason.hpp"
#include "datatype/layout.hpp"
#include "datatype/reduce_work.hpp"
#include "device/device.hpp"
#include "device/scratch.hpp"
#include "nccl/job.hpp"

namespace swy::nccl {

// Adjacent bytes that are sent to or received from a rank.
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

// Elements whose packed form NCCL moves: `count` elements of a layout at `address`, as MPI counts and addresses them.
struct Packing {
    std::shared_ptr<const datatype::Layout> layout;
    std::size_t count;
    std::uintptr_t address;
    std::byte* packed;
};

// What is queued on the stream together: copies, then reductions by kernels one after the other, then one group of NCCL
// sends and receives.
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
    // MPI's counts by rank, where they may differ (MPI_Reduce_scatter); `count` then is this rank's.
    Numbers<MPI_Count> counts;
    std::size_t per_element = 1;  // NCCL elements in one MPI element
    int type = 0, op = 0;         // ncclDataType_t, ncclRedOp_t
    int root = 0;
    device::Location location;
    device::Scratch scratch;

    // For the collectives that move blocks of different sizes (exchange.cpp): what this rank sends and receives, and
    // what it copies to itself before. For MPI_Allgatherv, `receives` has one block for every rank with data.
    std::vector<Block> sends, receives;
    std::vector<Copy> copies;

    // For types that are not contiguous (packing.cpp): what is packed before everything else, and unpacked at the end.
    std::vector<Packing> packs, unpacks;
    device::Scratch packed;

    // For the reductions that NCCL lacks (kernel_reduction.cpp): all steps, in this order. Otherwise empty.
    std::vector<Stage> stages;
    device::Kernel kernel{};

    std::size_t bytes() const { return count * type_bytes; }
};

// Tells whether this rank's part of the call can go over NCCL. kNone: it can, and `work` holds all that its job needs.
// The caller knows that all data of this rank is device memory; where the rank has none, `work.location` stays without
// device. `size` and `rank` are the communicator's.
Reason prepare(const Call& call, int rank, int size, Work& work);

// The job of a collective; with several works, one for each member of this process.
std::unique_ptr<Job> collective(std::vector<Work> works);
std::unique_ptr<Job> collective(Work work);

// Nothing that is queued behind it runs on any rank's stream before all ranks' streams have reached it. Returns nullptr
// on failure, with `failure` set.
std::unique_ptr<Job> barrier(device::Context context, std::string& failure);

}  // namespace swy::nccl
