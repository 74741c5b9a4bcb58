#include "nccl/launch.hpp"

#include <algorithm>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "datatype/layout.hpp"
#include "nccl/group_call.hpp"
#include "pack/group.hpp"
#include "pack/neighbours.hpp"

namespace swy::nccl {
namespace {

// The blocks of one operand as bytes. `obstacle` keeps why a block cannot be moved.
class Blocks {
  public:
    explicit Blocks(const Operand* operand) : operand_(operand) {}

    // Returns block r, or the only one.
    Block at(int r, int peer) {
        if (operand_ == nullptr || operand_->address == MPI_IN_PLACE)
            return {nullptr, 0, peer};
        const MPI_Count count = operand_->counts() ? operand_->counts()[r] : operand_->count;
        const MPI_Datatype type = operand_->types != nullptr ? operand_->types[r] : operand_->type;
        if (count < 0 || (count > 0 && type == MPI_DATATYPE_NULL))
            obstacle = std::max(obstacle, Reason::kInvalid);  // an error of the program's, which MPI reports
        if (count <= 0 || type == MPI_DATATYPE_NULL)
            return {nullptr, 0, peer};
        const datatype::Layout& layout = layout_of(type);
        if (layout.size == 0)
            return {nullptr, 0, peer};
        if (!layout.contiguous)
            obstacle = std::max(obstacle, Reason::kDerivedType);
        return {static_cast<std::byte*>(operand_->address) + offset(r, count, layout) + layout.true_lb,
                static_cast<std::size_t>(count) * layout.size, peer};
    }

    Reason obstacle = Reason::kNone;

  private:
    MPI_Aint offset(int r, MPI_Count count, const datatype::Layout& layout) const {
        if (operand_->types != nullptr)
            return operand_->displs()[r];
        if (operand_->counts())
            return operand_->displs()[r] * layout.extent;
        return operand_->shape == Shape::kOne ? 0 : r * count * layout.extent;
    }

    const datatype::Layout& layout_of(MPI_Datatype type) {
        if (layout_ == nullptr || type != type_)
            layout_ = datatype::layout_of(type);
        type_ = type;
        return *layout_;
    }

    const Operand* operand_;
    MPI_Datatype type_ = MPI_DATATYPE_NULL;
    std::shared_ptr<const datatype::Layout> layout_;
};

// Collects what this rank does in an exchange.
class ExchangePlan {
  public:
    ExchangePlan(const Call& call, int rank, int size, Work& work)
        : call_(call.id),
          send_(&call.operands.front()),
          receive_(&call.operands.back()),
          sends_(send_),
          receives_(receive_),
          rank_(rank),
          size_(size),
          work_(work) {}

    void send(int block, int to) { add(sends_.at(block, to), work_.sends, own_sent_); }
    void receive(int block, int from) { add(receives_.at(block, from), work_.receives, own_received_); }

    void gather() {
        if (work_.root != rank_)
            return send(0, work_.root);
        if (send_->address != MPI_IN_PLACE)
            send(0, rank_);
        for (int r = 0; r < size_; ++r)
            if (r != rank_ || send_->address != MPI_IN_PLACE)
                receive(r, r);
        work_.recv = receives_.at(0, 0).data;
        work_.count = receives_.at(0, 0).bytes;
    }

    void scatter() {
        if (work_.root != rank_)
            return receive(0, work_.root);
        if (receive_->address != MPI_IN_PLACE)
            receive(0, rank_);
        for (int r = 0; r < size_; ++r)
            if (r != rank_ || receive_->address != MPI_IN_PLACE)
                send(r, r);
        work_.send = sends_.at(0, 0).data;
        work_.count = sends_.at(0, 0).bytes;
    }

    void alltoall() {
        if (send_->address == MPI_IN_PLACE)
            return alltoall_in_place();
        for (int r = 0; r < size_; ++r) {
            send(r, r);
            receive(r, r);
        }
    }

    // Of NCCL's broadcasts, which copy the root's own block too.
    void allgatherv() {
        Block own = sends_.at(0, rank_);
        for (int r = 0; r < size_; ++r) {
            const Block block = receives_.at(r, r);
            if (block.bytes != 0)
                work_.receives.push_back(block);
            if (r == rank_ && send_->address == MPI_IN_PLACE)
                own = block;
        }
        if (own.bytes != 0)
            work_.sends.push_back(own);
    }

    // Several edges between two ranks would have to be told apart, which NCCL cannot do.
    Reason neighbours(MPI_Comm comm) {
        const pack::Neighbours found = pack::neighbours_of(comm);
        if (twice(found.sources) || twice(found.targets))
            return Reason::kSeveralEdges;
        for (int i = 0; i < static_cast<int>(found.targets.size()); ++i)
            if (found.targets[static_cast<std::size_t>(i)] != MPI_PROC_NULL)
                send(i, found.targets[static_cast<std::size_t>(i)]);
        for (int i = 0; i < static_cast<int>(found.sources.size()); ++i)
            if (found.sources[static_cast<std::size_t>(i)] != MPI_PROC_NULL)
                receive(i, found.sources[static_cast<std::size_t>(i)]);
        return Reason::kNone;
    }

    // Rank r of the other group has block r of what goes to all of it or comes from all of it.
    void between_groups(const TwoGroups& groups) {
        const CallId id = blocking_form(call_);
        const bool to_root = id == CallId::kGather || id == CallId::kGatherv;
        const bool from_root = id == CallId::kBcast || id == CallId::kScatter || id == CallId::kScatterv;
        if (work_.root == MPI_PROC_NULL && (to_root || from_root))
            return;
        if (work_.root >= 0 && to_root)
            return send(0, groups.first_others + work_.root);
        if (work_.root >= 0 && from_root)
            return receive(0, groups.first_others + work_.root);
        for (int r = 0; r < groups.others; ++r) {
            if (!to_root)
                send(r, groups.first_others + r);
            if (!from_root)
                receive(r, groups.first_others + r);
        }
    }

    // Determines the location of the blocks and acquires the memory that is needed.
    Reason finish() {
        if (const Reason obstacle = std::max(sends_.obstacle, receives_.obstacle); obstacle != Reason::kNone)
            return obstacle;
        if (own_sent_.bytes != 0 && own_received_.bytes != 0 && own_sent_.data != own_received_.data)
            work_.copies.push_back(
                {own_received_.data, own_sent_.data, std::min(own_sent_.bytes, own_received_.bytes)});
        for (const std::vector<Block>* blocks : {&work_.sends, &work_.receives})
            for (const Block& block : *blocks)
                if (const Reason obstacle = locate(block); obstacle != Reason::kNone)
                    return obstacle;
        for (const Block& block : {own_sent_, own_received_})
            if (block.bytes != 0)
                if (const Reason obstacle = locate(block); obstacle != Reason::kNone)
                    return obstacle;
        return in_place_ ? move_aside() : Reason::kNone;
    }

  private:
    void add(const Block& block, std::vector<Block>& to, Block& own) {
        if (block.peer == rank_)
            own = block;
        else if (block.bytes != 0)
            to.push_back(block);
    }

    static bool twice(const std::vector<int>& ranks) {
        std::set<int> seen;
        return std::any_of(ranks.begin(), ranks.end(),
                           [&](int rank) { return rank != MPI_PROC_NULL && !seen.insert(rank).second; });
    }

    void alltoall_in_place() {
        in_place_ = true;
        for (int r = 0; r < size_; ++r) {
            if (r == rank_)
                continue;
            receive(r, r);
            if (const Block block = receives_.at(r, r); block.bytes != 0)
                work_.sends.push_back(block);
        }
    }

    // Has blocks that are sent in place copied to scratch memory first: NCCL has no in-place exchange.
    Reason move_aside() {
        std::size_t bytes = 0;
        for (const Block& block : work_.sends)
            bytes += block.bytes;
        if (bytes == 0)
            return Reason::kNone;
        if (device::Scratch::acquire(work_.location.context, bytes, work_.scratch) != 0)
            return Reason::kNoMemory;
        auto* to = static_cast<std::byte*>(work_.scratch.data());
        for (Block& block : work_.sends) {
            work_.copies.push_back({to, block.data, block.bytes});
            block.data = to;
            to += block.bytes;
        }
        return Reason::kNone;
    }

    Reason locate(const Block& block) {
        const auto first = reinterpret_cast<std::uintptr_t>(block.data);
        const device::Location& known = work_.location;
        if (known.ordinal >= 0 && first >= known.begin && first + block.bytes <= known.end)
            return Reason::kNone;
        return take_location(block.data, work_);
    }

    const CallId call_;
    const Operand* send_;
    const Operand* receive_;
    Blocks sends_, receives_;
    const int rank_, size_;
    Work& work_;
    Block own_sent_{}, own_received_{};
    bool in_place_ = false;
};

}  // namespace

Reason plan(const Call& call, int rank, int size, Work& work) {
    ExchangePlan plan(call, rank, size, work);
    work.in_place = call.operands.front().address == MPI_IN_PLACE;
    switch (blocking_form(call.id)) {
        case CallId::kGather:
        case CallId::kGatherv:
            plan.gather();
            break;
        case CallId::kScatter:
        case CallId::kScatterv:
            plan.scatter();
            break;
        case CallId::kAllgatherv:
            plan.allgatherv();
            break;
        case CallId::kAlltoallv:
        case CallId::kAlltoallw:
            plan.alltoall();
            break;
        default:
            if (const Reason obstacle = plan.neighbours(call.owner.comm); obstacle != Reason::kNone)
                return obstacle;
    }
    return plan.finish();
}

Reason plan_between_groups(const Call& call, int rank, int size, Work& work) {
    const pack::Group group = pack::group_of(call.owner.comm);
    TwoGroups groups{group.own, group.others, group.rank};
    groups.first_own = rank == group.rank ? 0 : group.others;
    groups.first_others = groups.first_own == 0 ? group.own : 0;
    const bool in_place = std::any_of(call.operands.begin(), call.operands.end(),
                                      [](const Operand& operand) { return operand.address == MPI_IN_PLACE; });
    const bool root = call.root == MPI_PROC_NULL || call.root == MPI_ROOT || call.root < group.others;
    if (in_place || !root)
        return Reason::kInvalid;  // an error of the program's, which MPI reports
    work.id = call.id;
    work.root = call.root;
    if (call.op != MPI_OP_NULL)
        return plan_reduction_between_groups(call, groups, work);
    ExchangePlan plan(call, rank, size, work);
    plan.between_groups(groups);
    const Reason obstacle = plan.finish();
    Stage& only = work.stages.emplace_back();
    only.sends = std::move(work.sends);
    only.receives = std::move(work.receives);
    return obstacle;
}

ncclResult_t exchange(const Launch& l, const std::vector<Block>& sends, const std::vector<Block>& receives) {
    if (sends.empty() && receives.empty())
        return ncclSuccess;
    GroupCall group(l.nccl);
    for (const Block& block : sends)
        group.add(l.nccl.Send(block.data, block.bytes, ncclInt8, block.peer, l.comm, l.stream));
    for (const Block& block : receives)
        group.add(l.nccl.Recv(block.data, block.bytes, ncclInt8, block.peer, l.comm, l.stream));
    return group.end();
}

ncclResult_t exchange(const Launch& l) {
    return exchange(l, l.work.sends, l.work.receives);
}

// NCCL's own gather and scatter (2.28). The root's own block is in its position already, where plan() has it copied.
// Other ranks pass, for the root's buffer, which NCCL ignores there, an address that passes NCCL's checks.
ncclResult_t gather(const Launch& l) {
    if (l.nccl.Gather == nullptr)
        return exchange(l);
    if (l.rank != l.work.root) {
        const Block& own = l.work.sends.front();
        return l.nccl.Gather(own.data, own.data, own.bytes, ncclInt8, l.work.root, l.comm, l.stream);
    }
    auto* recv = static_cast<std::byte*>(l.work.recv);
    const auto* own = recv + static_cast<std::size_t>(l.rank) * l.work.count;
    return l.nccl.Gather(own, recv, l.work.count, ncclInt8, l.work.root, l.comm, l.stream);
}

ncclResult_t scatter(const Launch& l) {
    if (l.nccl.Scatter == nullptr)
        return exchange(l);
    if (l.rank != l.work.root) {
        const Block& own = l.work.receives.front();
        return l.nccl.Scatter(own.data, own.data, own.bytes, ncclInt8, l.work.root, l.comm, l.stream);
    }
    auto* send = static_cast<std::byte*>(const_cast<void*>(l.work.send));
    auto* own = send + static_cast<std::size_t>(l.rank) * l.work.count;
    return l.nccl.Scatter(send, own, l.work.count, ncclInt8, l.work.root, l.comm, l.stream);
}

ncclResult_t allgatherv(const Launch& l) {
    GroupCall group(l.nccl);
    for (const Block& block : l.work.receives) {
        const bool own = block.peer == l.rank && !l.work.sends.empty();
        const std::byte* send = own ? l.work.sends.front().data : block.data;
        group.add(l.nccl.Broadcast(send, block.data, block.bytes, ncclInt8, block.peer, l.comm, l.stream));
    }
    return group.end();
}

}  // namespace swy::nccl
