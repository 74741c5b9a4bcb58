#include "ext/multi/host_work.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <numeric>
#include <utility>

#include "comm/state.hpp"
#include "comm/where.hpp"
#include "datatype/element.hpp"
#include "datatype/extension.hpp"
#include "error/error.hpp"
#include "real.hpp"

namespace swy::multi {

using pack::Direction;
using staging::Staging;

struct HostWork::Memory {
    ~Memory() {
        int down = 0;
        real::Finalized(&down);
        if (block != MPI_DATATYPE_NULL && !down)
            real::Type_free(&block);
    }

    Elements reduced;        // the own slots' contributions, reduced to one
    Elements contributions;  // those of the ranks, where MPI does not reduce them
    Elements result;
    std::vector<std::byte> sent, received;  // packed blocks
    std::vector<int> send_counts, send_starts, counts, starts;
    int contributors = 0;
    MPI_Datatype block = MPI_DATATYPE_NULL;
};

HostWork::HostWork(const Kept& kept, const SlotCounts& slots, int rank)
    : kept_(kept),
      slots_(slots),
      rank_(rank),
      op_(kept.moves() ? MPI_OP_NULL : datatype::operator_for(kept.call().op, kept.call().out_type, true)),
      own_(static_cast<std::size_t>(kept.buffers())),
      memory_(std::make_unique<Memory>()) {}

HostWork::~HostWork() = default;

HostWork::Failure HostWork::failed(int mpi_class, const std::string& why) const {
    return {mpi_class, why, comm::where(kept_.call().id, kept_.call().comm)};
}

HostWork::Failure HostWork::failed(int mpi_code) const {
    int mpi_class = MPI_ERR_OTHER;
    real::Error_class(mpi_code, &mpi_class);
    return failed(mpi_class, error::text_of(mpi_code));
}

// MPI's rules for roots and blocks are already applied in the operands: they are simply elements here.
HostWork::Failure HostWork::prepare() {
    for (int i = 0; i < own(); ++i) {
        Slot& slot = own_[static_cast<std::size_t>(i)];
        const int number = slots_.first(rank_) + i;
        slot.operands = {kept_.sent(i, number, size()), kept_.received(i, number, size())};
        for (Operand& operand : slot.operands)
            if (operand.address == nullptr)
                operand.count = 0;
        if (kept_.call().plain == CallId::kBcast)  // one of the two exists, and both have the same type
            slot.operands[0].count = number == kept_.call().root ? slot.operands[0].count : 0;
        const Call call{
            .id = CallId::kAllreduce, .owner = Owner(kept_.call().comm), .operands = slot.operands, .op = op_};
        slot.staging = std::make_unique<Staging>(kept_.call().id, call.owner);
        if (Failure failure = slot.staging->prepare(call))
            return failure;
    }
    return {};
}

HostWork::Failure HostWork::each(Failure (*step)(Staging&)) {
    Failure first;
    for (Slot& slot : own_)
        if (Failure failure = step(*slot.staging); failure && !first)
            first = std::move(failure);
    return first;
}

HostWork::Failure HostWork::begin_copy_in() {
    return each([](Staging& staging) { return staging.begin_copy_in(); });
}

HostWork::Failure HostWork::begin_copy_out() {
    return each([](Staging& staging) { return staging.begin_copy_out(true); });
}

HostWork::Failure HostWork::query(bool& done, Direction direction) {
    done = true;
    Failure first;
    for (Slot& slot : own_) {
        bool one = false;
        if (Failure failure = slot.staging->query(one, direction); failure && !first)
            first = std::move(failure);
        done &= one;
    }
    return first;
}

HostWork::Failure HostWork::query_in(bool& done) {
    return query(done, Direction::kToHost);
}

HostWork::Failure HostWork::query_out(bool& done) {
    return query(done, Direction::kToDevice);
}

int HostWork::call(MPI_Comm comm, MPI_Request* request) {
    *request = MPI_REQUEST_NULL;
    return call({.comm = comm, .request = request});
}

int HostWork::call(comm::Exchange& exchange) {
    return call({.exchange = &exchange});
}

int HostWork::call(const By& by) {
    if (size() == 0 || kept_.call().out_count == 0)
        return MPI_SUCCESS;
    switch (kept_.call().plain) {
        case CallId::kAllreduce:
            return allreduce(by);
        case CallId::kReduce:
            return reduce_to_root(by);
        case CallId::kReduceScatterBlock:
            return reduce_scatter(by);
        case CallId::kBcast:
            return bcast(by);
        case CallId::kAllgather:
            return allgather(by);
        default:
            return alltoall(by);
    }
}

void HostWork::make_block(MPI_Datatype of, int count) {
    real::Type_contiguous(count, of, &memory_->block);
    real::Type_commit(&memory_->block);
}

// Reduces the own slots' contributions. A non-commutative operator is applied in the order of the slots: from the last
// slot back, each before what has been reduced so far.
int HostWork::fold_own(MPI_Count blocks) {
    const ListCall& call = kept_.call();
    if (own() == 0)
        return MPI_SUCCESS;
    memory_->reduced = Elements(call.out_type, blocks * call.out_count);
    copy(own_.back().sent(), 0, memory_->reduced.operand(), 0, blocks * call.out_count);
    for (auto slot = own_.rbegin() + 1; slot != own_.rend(); ++slot)
        for (MPI_Count block = 0; block < blocks; ++block) {
            const MPI_Count at = block * call.out_count;
            const int rc =
                reduce(element(slot->sent(), at), memory_->reduced.at(at), call.out_count, call.out_type, op_);
            if (rc != MPI_SUCCESS)
                return rc;
        }
    return MPI_SUCCESS;
}

// Reduces the ranks' contributions in the same way; the result replaces the first contribution.
int HostWork::fold_contributions() {
    const ListCall& call = kept_.call();
    const MPI_Count blocks = memory_->contributions.operand().count / call.out_count / memory_->contributors;
    memory_->result = Elements(call.out_type, blocks * call.out_count);
    const auto at = [&](int contributor, MPI_Count block) { return (contributor * blocks + block) * call.out_count; };
    const Operand& all = memory_->contributions.operand();
    copy(all, at(memory_->contributors - 1, 0), memory_->result.operand(), 0, blocks * call.out_count);
    for (int contributor = memory_->contributors - 2; contributor >= 0; --contributor)
        for (MPI_Count block = 0; block < blocks; ++block) {
            const int rc = reduce(memory_->contributions.at(at(contributor, block)),
                                  memory_->result.at(block * call.out_count), call.out_count, call.out_type, op_);
            if (rc != MPI_SUCCESS)
                return rc;
        }
    return MPI_SUCCESS;
}

// Sets the counts of what each rank sends and receives, in blocks: one block where a rank has slots.
int HostWork::count_contributors() {
    Memory& m = *memory_;
    for (const int count : slots_.counts()) {
        m.starts.push_back(m.contributors);
        m.counts.push_back(count > 0 ? 1 : 0);
        m.contributors += m.counts.back();
    }
    return m.contributors;
}

// Gathers blocks of all ranks at `root`, or on all ranks for -1. The memory's counts say how many each rank has.
int HostWork::gather(const By& by, const void* mine, int number, void* all, int root) {
    Memory& m = *memory_;
    if (by.exchange == nullptr)
        return root < 0 ? real::Iallgatherv(mine, number, m.block, all, m.counts.data(), m.starts.data(), m.block,
                                            by.comm, by.request)
                        : real::Igatherv(mine, number, m.block, all, m.counts.data(), m.starts.data(), m.block, root,
                                         by.comm, by.request);
    const std::vector<int> none(m.counts.size());
    comm::Exchange::Blocks sent{const_cast<void*>(mine), none, none};  // NOLINT(cppcoreguidelines-pro-type-const-cast)
    for (std::size_t to = 0; to < none.size(); ++to)
        if (root < 0 || static_cast<int>(to) == root)
            sent.counts[to] = number;
    return by.exchange->begin(sent, {all, root < 0 || root == rank_ ? m.counts : none, m.starts}, m.block);
}

// Sends blocks of each rank to each, as the memory's counts say.
int HostWork::exchange(const By& by, void* sent, void* received) {
    Memory& m = *memory_;
    if (by.exchange != nullptr)
        return by.exchange->begin({sent, m.send_counts, m.send_starts}, {received, m.counts, m.starts}, m.block);
    return real::Ialltoallv(sent, m.send_counts.data(), m.send_starts.data(), m.block, received, m.counts.data(),
                            m.starts.data(), m.block, by.comm, by.request);
}

// A rank without slots has nothing to contribute, which MPI's reductions do not allow: the others' contributions are
// then gathered, and reduced where the result is needed. The same is done where messages transport them.
int HostWork::allreduce(const By& by) {
    const ListCall& call = kept_.call();
    Memory& m = *memory_;
    if (const int rc = fold_own(1); rc != MPI_SUCCESS)
        return rc;
    if (by.exchange == nullptr && !slots_.some_without()) {
        m.result = Elements(call.out_type, call.out_count);
        return real::Iallreduce(m.reduced.operand().address, m.result.operand().address, call.out_count, call.out_type,
                                op_, by.comm, by.request);
    }
    make_block(call.out_type, call.out_count);
    m.contributions = Elements(call.out_type, MPI_Count{count_contributors()} * call.out_count);
    return gather(by, m.reduced.operand().address, own() > 0 ? 1 : 0, m.contributions.operand().address, -1);
}

int HostWork::reduce_to_root(const By& by) {
    const ListCall& call = kept_.call();
    Memory& m = *memory_;
    const int root = slots_.rank_of(call.root);
    if (const int rc = fold_own(1); rc != MPI_SUCCESS)
        return rc;
    if (by.exchange == nullptr && !slots_.some_without()) {
        if (root == rank_)
            m.result = Elements(call.out_type, call.out_count);
        return real::Ireduce(m.reduced.operand().address, m.result.operand().address, call.out_count, call.out_type,
                             op_, root, by.comm, by.request);
    }
    make_block(call.out_type, call.out_count);
    count_contributors();
    if (root == rank_)
        m.contributions = Elements(call.out_type, MPI_Count{m.contributors} * call.out_count);
    return gather(by, m.reduced.operand().address, own() > 0 ? 1 : 0, m.contributions.operand().address, root);
}

// Every rank receives all contributions to its slots' blocks, which is in sum as much as any reduction of this kind
// sends.
int HostWork::reduce_scatter(const By& by) {
    const ListCall& call = kept_.call();
    Memory& m = *memory_;
    if (const int rc = fold_own(size()); rc != MPI_SUCCESS)
        return rc;
    make_block(call.out_type, call.out_count);
    for (int rank = 0; rank < slots_.ranks(); ++rank) {
        const bool contributes = slots_.count(rank) > 0;
        m.send_counts.push_back(own() > 0 ? slots_.count(rank) : 0);
        m.send_starts.push_back(slots_.first(rank));
        m.counts.push_back(contributes ? own() : 0);
        m.starts.push_back(m.contributors * own());
        m.contributors += contributes ? 1 : 0;
    }
    m.contributions = Elements(call.out_type, MPI_Count{m.contributors} * own() * call.out_count);
    return exchange(by, m.reduced.operand().address, m.contributions.operand().address);
}

// Data that is only moved is sent as bytes, in blocks of one slot each.
int HostWork::bcast(const By& by) {
    Memory& m = *memory_;
    const int root = slots_.rank_of(kept_.call().root);
    m.received.resize(kept_.block_bytes());
    if (root == rank_) {
        const Operand& sent = own_[static_cast<std::size_t>(kept_.call().root - slots_.first(rank_))].sent();
        to_bytes(sent, 0, sent.count, m.received.data());
    }
    make_block(MPI_BYTE, static_cast<int>(datatype::size_of(kept_.call().out_type)));
    const int count = kept_.call().out_count;
    if (by.exchange == nullptr)
        return real::Ibcast(m.received.data(), count, m.block, root, by.comm, by.request);
    const std::vector<int> none(slots_.counts().size());
    comm::Exchange::Blocks sent{m.received.data(), none, none}, received = sent;
    if (root == rank_)
        sent.counts.assign(none.size(), count);
    else
        received.counts[static_cast<std::size_t>(root)] = count;
    sent.counts[static_cast<std::size_t>(root)] = 0;
    return by.exchange->begin(sent, received, m.block);
}

int HostWork::allgather(const By& by) {
    Memory& m = *memory_;
    const std::size_t bytes = kept_.block_bytes();
    m.sent.resize(bytes * static_cast<std::size_t>(own()));
    for (std::size_t i = 0; i < own_.size(); ++i)
        to_bytes(own_[i].sent(), 0, own_[i].sent().count, m.sent.data() + i * bytes);
    m.received.resize(bytes * static_cast<std::size_t>(size()));
    MPI_Datatype element = MPI_DATATYPE_NULL;
    real::Type_contiguous(static_cast<int>(datatype::size_of(kept_.call().out_type)), MPI_BYTE, &element);
    make_block(element, kept_.call().out_count);
    real::Type_free(&element);
    m.counts = slots_.counts();
    for (int rank = 0; rank < slots_.ranks(); ++rank)
        m.starts.push_back(slots_.first(rank));
    return gather(by, m.sent.data(), own(), m.received.data(), -1);
}

// Sends to each rank: from each own slot, in order, the blocks for that rank's slots.
int HostWork::alltoall(const By& by) {
    Memory& m = *memory_;
    const std::size_t bytes = kept_.block_bytes();
    m.sent.resize(bytes * static_cast<std::size_t>(own()) * static_cast<std::size_t>(size()));
    m.received.resize(m.sent.size());
    std::byte* to = m.sent.data();
    for (int rank = 0; rank < slots_.ranks(); ++rank) {
        for (const Slot& slot : own_) {
            const MPI_Count each = slot.sent().count / size();
            to_bytes(slot.sent(), slots_.first(rank) * each, slots_.count(rank) * each, to);
            to += bytes * static_cast<std::size_t>(slots_.count(rank));
        }
        m.counts.push_back(own() * slots_.count(rank));
        m.starts.push_back(own() * slots_.first(rank));
    }
    MPI_Datatype element = MPI_DATATYPE_NULL;
    real::Type_contiguous(static_cast<int>(datatype::size_of(kept_.call().out_type)), MPI_BYTE, &element);
    make_block(element, kept_.call().out_count);
    real::Type_free(&element);
    m.send_counts = m.counts;
    m.send_starts = m.starts;
    return exchange(by, m.sent.data(), m.received.data());
}

HostWork::Failure HostWork::finish_call() {
    const ListCall& call = kept_.call();
    Memory& m = *memory_;
    if (size() == 0 || call.out_count == 0)
        return {};
    if (kept_.moves()) {
        hand_out_moved();
        return {};
    }
    const bool reduces_here = m.contributors > 0 && m.contributions.operand().count > 0;
    if (reduces_here && fold_contributions() != MPI_SUCCESS)
        return failed(MPI_ERR_OP, "MPI_Reduce_local failed");
    if (m.result.operand().count > 0)
        hand_out_reduced(m.result.operand());
    const int root = call.plain == CallId::kReduce ? call.root - slots_.first(rank_) : -1;
    if (root >= 0 && root < own() && own_[static_cast<std::size_t>(root)].received().count == 0)
        return failed(MPI_ERR_BUFFER, fmt::format("the receive buffer of the root, place {}, is NULL", call.root));
    return {};
}

void HostWork::hand_out_reduced(const Operand& from) {
    const ListCall& call = kept_.call();
    if (datatype::averages(call.op))
        datatype::divide(from.address, static_cast<std::size_t>(from.count),
                         datatype::element_of(call.out_type).element, size());
    const bool blocks = call.plain == CallId::kReduceScatterBlock;
    for (std::size_t i = 0; i < own_.size(); ++i)
        if (own_[i].received().count > 0)
            copy(from, blocks ? static_cast<MPI_Count>(i) * call.out_count : 0, own_[i].received(), 0, call.out_count);
}

void HostWork::hand_out_moved() {
    const std::size_t bytes = kept_.block_bytes();
    const bool exchanged = kept_.call().plain == CallId::kAlltoall;
    for (std::size_t i = 0; i < own_.size(); ++i) {
        const Operand& to = own_[i].received();
        if (to.count == 0)
            continue;
        if (!exchanged) {
            from_bytes(memory_->received.data(), to, 0, to.count);
            continue;
        }
        // From each slot: its blocks for the own slots are adjacent.
        const MPI_Count each = to.count / size();
        for (int slot = 0; slot < size(); ++slot)
            from_bytes(memory_->received.data() + (static_cast<std::size_t>(slot) * own_.size() + i) * bytes, to,
                       slot * each, each);
    }
}

}  // namespace swy::multi
