#include "vgpu/nccl/algorithm.hpp"

#include <algorithm>
#include <cstring>

namespace vgpu::nccl {
namespace {

std::size_t at(int value) {
    return static_cast<std::size_t>(value);
}

class Layout {
  public:
    Layout(Step& step, const Call& call, const RankView& view, const Buffers& buffers, const Reduction& reduction)
        : step_(step),
          call_(call),
          view_(view),
          buffers_(buffers),
          reduction_(reduction),
          element_(size_of(static_cast<ncclDataType_t>(call.type))),
          block_(call.count * element_) {}

    void lay_out() {
        switch (call_.kind) {
            case Kind::AllReduce:
                return all_reduce();
            case Kind::Reduce:
                return reduce();
            case Kind::Broadcast:
                return broadcast();
            case Kind::AllGather:
                return all_gather();
            case Kind::ReduceScatter:
                return reduce_scatter();
            case Kind::AlltoAll:
                return all_to_all();
            case Kind::Gather:
                return gather();
            case Kind::Scatter:
                return scatter();
            case Kind::Send:
            case Kind::Recv:
                return;
        }
    }

  private:
    // A block of an all-reduce belongs to each rank; the first ones are longer by one element where it does not come
    // out even.
    std::size_t block_begin(int rank) const {
        const std::size_t each = call_.count / at(view_.ranks);
        const std::size_t longer = call_.count % at(view_.ranks);
        return at(rank) * each + std::min(at(rank), longer);
    }
    std::size_t block_count(int rank) const { return block_begin(rank + 1) - block_begin(rank); }

    bool root() const { return view_.rank == call_.root; }
    const std::byte* send_block(int rank) const { return buffers_.send + at(rank) * block_; }
    std::byte* recv_block(int rank) const { return buffers_.recv + at(rank) * block_; }

    Exchange& with(int rank) {
        Exchange& exchange = step_.exchanges.emplace_back();
        exchange.mine = call_;
        exchange.peer = (*view_.family_rank)[at(rank)];
        return exchange;
    }
    static void give(Exchange& exchange, const std::byte* data, std::size_t bytes, const std::size_t* ready = nullptr) {
        if (bytes > 0)
            exchange.out.push_back({data, bytes, ready, 0});
    }
    static void get(Exchange& exchange, std::byte* data, std::size_t bytes) {
        if (bytes > 0)
            exchange.in.push_back({data, bytes, nullptr, -1, 0});
    }
    void combine(Exchange& exchange, int source, std::size_t bytes) {
        if (bytes > 0)
            exchange.in.push_back({nullptr, bytes, &*step_.reducer, source, 0});
    }
    template <typename Do>
    void for_others(Do each) {
        // Each rank begins with the one after it, so that not all go to rank 0 first.
        for (int i = 1; i < view_.ranks; ++i) {
            const int rank = (view_.rank + i) % view_.ranks;
            each(rank, with(rank));
        }
    }
    void keep(std::byte* to, const std::byte* from) const {
        if (to != from)
            std::memmove(to, from, block_);
    }

    void all_reduce() {
        const std::size_t own = block_begin(view_.rank) * element_;
        const std::size_t own_bytes = block_count(view_.rank) * element_;
        step_.reducer.emplace(reduction_, view_.ranks, view_.rank, buffers_.send + own, buffers_.recv + own,
                              block_count(view_.rank));
        for_others([&](int rank, Exchange& exchange) {
            const std::size_t its = block_begin(rank) * element_;
            const std::size_t its_bytes = block_count(rank) * element_;
            give(exchange, buffers_.send + its, its_bytes);
            give(exchange, buffers_.recv + own, own_bytes, &step_.reducer->ready());
            combine(exchange, rank, own_bytes);
            get(exchange, buffers_.recv + its, its_bytes);
        });
    }

    void reduce_scatter() {
        step_.reducer.emplace(reduction_, view_.ranks, view_.rank, send_block(view_.rank), buffers_.recv, call_.count);
        for_others([&](int rank, Exchange& exchange) {
            give(exchange, send_block(rank), block_);
            combine(exchange, rank, block_);
        });
    }

    void reduce() {
        if (!root())
            return give(with(call_.root), buffers_.send, block_);
        step_.reducer.emplace(reduction_, view_.ranks, view_.rank, buffers_.send, buffers_.recv, call_.count);
        for_others([&](int rank, Exchange& exchange) { combine(exchange, rank, block_); });
    }

    void broadcast() {
        if (!root())
            return get(with(call_.root), buffers_.recv, block_);
        keep(buffers_.recv, buffers_.send);
        for_others([&](int, Exchange& exchange) { give(exchange, buffers_.send, block_); });
    }

    void all_gather() {
        keep(recv_block(view_.rank), buffers_.send);
        for_others([&](int rank, Exchange& exchange) {
            give(exchange, buffers_.send, block_);
            get(exchange, recv_block(rank), block_);
        });
    }

    void all_to_all() {
        keep(recv_block(view_.rank), send_block(view_.rank));
        for_others([&](int rank, Exchange& exchange) {
            give(exchange, send_block(rank), block_);
            get(exchange, recv_block(rank), block_);
        });
    }

    void gather() {
        if (!root())
            return give(with(call_.root), buffers_.send, block_);
        keep(recv_block(view_.rank), buffers_.send);
        for_others([&](int rank, Exchange& exchange) { get(exchange, recv_block(rank), block_); });
    }

    void scatter() {
        if (!root())
            return get(with(call_.root), buffers_.recv, block_);
        keep(buffers_.recv, send_block(view_.rank));
        for_others([&](int rank, Exchange& exchange) { give(exchange, send_block(rank), block_); });
    }

    Step& step_;
    const Call& call_;
    const RankView& view_;
    const Buffers& buffers_;
    const Reduction& reduction_;
    const std::size_t element_;
    const std::size_t block_;  // bytes of `count` elements
};

}  // namespace

Extent extent_of(const Call& call, const RankView& view) {
    const std::size_t block = call.count * size_of(static_cast<ncclDataType_t>(call.type));
    const std::size_t all = block * at(view.ranks);
    const bool root = view.rank == call.root;
    switch (call.kind) {
        case Kind::AllReduce:
            return {block, block};
        case Kind::Reduce:
            return {block, root ? block : 0};
        case Kind::Broadcast:
            return {root ? block : 0, block};
        case Kind::AllGather:
            return {block, all};
        case Kind::ReduceScatter:
            return {all, block};
        case Kind::AlltoAll:
            return {all, all};
        case Kind::Gather:
            return {block, root ? all : 0};
        case Kind::Scatter:
            return {root ? all : 0, block};
        case Kind::Send:
            return {block, 0};
        case Kind::Recv:
            return {0, block};
    }
    return {};
}

void lay_out(Step& step, const Call& call, const RankView& view, const Buffers& buffers, const Reduction& reduction) {
    Layout(step, call, view, buffers, reduction).lay_out();
}

void lay_out_transfer(Step& step, const Call& call, const RankView& view, const Buffers& buffers) {
    Exchange& exchange = step.exchanges.emplace_back();
    exchange.mine = call;
    exchange.peer = (*view.family_rank)[at(call.root)];
    const std::size_t bytes = call.count * size_of(static_cast<ncclDataType_t>(call.type));
    if (bytes > 0 && call.kind == Kind::Send)
        exchange.out.push_back({buffers.send, bytes, nullptr, 0});
    else if (bytes > 0)
        exchange.in.push_back({buffers.recv, bytes, nullptr, -1, 0});
}

}  // namespace vgpu::nccl
