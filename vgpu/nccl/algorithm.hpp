// Divides each collective, and a batch of sends and receives, into exchanges between pairs of ranks.
// Every rank exchanges directly with every rank concerned; reductions are computed in blocks, one owner each, in rank
// order.
#pragma once

#include <cstddef>
#include <vector>

#include "vgpu/nccl/call.hpp"
#include "vgpu/nccl/exchange.hpp"
#include "vgpu/nccl/reduction.hpp"

namespace vgpu::nccl {

// The facts of a communicator that an algorithm needs.
struct RankView {
    int ranks = 1;
    int rank = 0;
    const std::vector<int>* family_rank = nullptr;  // by rank
};

struct Buffers {
    const std::byte* send = nullptr;
    std::byte* recv = nullptr;
};

// The bytes that a rank reads and writes in this call, which must be device memory.
struct Extent {
    std::size_t send = 0;
    std::size_t recv = 0;
};
Extent extent_of(const Call& call, const RankView& view);

// Adds the exchanges of one collective to an empty step, and does the part that concerns this rank alone.
void lay_out(Step& step, const Call& call, const RankView& view, const Buffers& buffers, const Reduction& reduction);

// Adds one send or receive with another rank. Those of one step run at the same time.
void lay_out_transfer(Step& step, const Call& call, const RankView& view, const Buffers& buffers);

}  // namespace vgpu::nccl
