// Combines one block of elements from all ranks, a piece at a time, as their bytes arrive: in the order of a ring that
// begins behind this rank, as NCCL's does, so that programs which rely on the order of the ranks fail.
// Filled by links, owned by the step of an operation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "vgpu/nccl/reduction.hpp"

namespace vgpu::nccl {

class Reducer {
  public:
    // `own` are this rank's elements, `result` takes the combined ones; they may be the same memory.
    Reducer(const Reduction& reduction, int ranks, int self, const std::byte* own, std::byte* result,
            std::size_t count);

    // Takes whole elements of `source` from the front of `bytes` while it is that rank's turn; returns the bytes taken.
    std::size_t take(int source, std::span<const std::byte> bytes);

    // The number of bytes of the result that are final.
    const std::size_t& ready() const { return ready_; }
    bool done() const { return finished_ == count_; }

  private:
    int rank_in_turn() const { return (self_ + 1 + turn_) % ranks_; }
    void advance();
    void add(const std::byte* elements, std::size_t count);

    static constexpr std::size_t kPiece = 4096;  // elements
    Reduction reduction_;
    int ranks_;
    int self_;
    const std::byte* own_;
    std::byte* result_;
    std::size_t count_;
    std::size_t finished_ = 0;  // elements
    std::size_t ready_ = 0;     // the same in bytes
    int turn_ = 0;              // ranks that have given this piece
    std::size_t taken_ = 0;     // elements of this piece that the rank in turn has given
    std::vector<std::uint64_t> accumulator_;
};

}  // namespace vgpu::nccl
