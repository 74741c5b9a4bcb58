#include "vgpu/nccl/reducer.hpp"

#include <algorithm>

namespace vgpu::nccl {

Reducer::Reducer(const Reduction& reduction, int ranks, int self, const std::byte* own, std::byte* result,
                 std::size_t count)
    : reduction_(reduction),
      ranks_(ranks),
      self_(self),
      own_(own),
      result_(result),
      count_(count),
      accumulator_(std::min(kPiece, count)) {
    advance();
}

std::size_t Reducer::take(int source, std::span<const std::byte> bytes) {
    std::size_t taken = 0;
    while (!done() && rank_in_turn() == source) {
        const std::size_t piece = std::min(kPiece, count_ - finished_);
        const std::size_t count = std::min(piece - taken_, (bytes.size() - taken) / reduction_.element);
        if (count == 0)
            break;
        add(bytes.data() + taken, count);
        taken += count * reduction_.element;
        advance();
    }
    return taken;
}

void Reducer::add(const std::byte* elements, std::size_t count) {
    auto* at = reinterpret_cast<std::byte*>(accumulator_.data()) + taken_ * reduction_.width;
    (turn_ == 0 ? reduction_.first : reduction_.next)(at, elements, count, reduction_.scalar);
    taken_ += count;
}

// Moves on to the next rank when one has delivered its part, adds this rank's own, and writes complete pieces.
void Reducer::advance() {
    while (!done()) {
        const std::size_t piece = std::min(kPiece, count_ - finished_);
        if (rank_in_turn() == self_ && taken_ == 0)
            add(own_ + finished_ * reduction_.element, piece);
        if (taken_ < piece)
            return;
        taken_ = 0;
        if (++turn_ < ranks_)
            continue;
        reduction_.write(result_ + finished_ * reduction_.element, accumulator_.data(), piece, reduction_.scalar);
        finished_ += piece;
        ready_ = finished_ * reduction_.element;
        turn_ = 0;
    }
}

}  // namespace vgpu::nccl
