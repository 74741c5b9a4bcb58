#include "nccl/collectives.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

#include "call/hash.hpp"
#include "datatype/element.hpp"
#include "datatype/layout.hpp"
#include "nccl/communicator.hpp"
#include "nccl/group_call.hpp"
#include "nccl/launch.hpp"
#include "nccl/library.hpp"
#include "nccl/mapping.hpp"
#include "nccl/packing.hpp"
#include "pack/group.hpp"
#include "settings/settings.hpp"

namespace swy::nccl {
namespace {

ncclResult_t allreduce(const Launch& l) {
    return l.nccl.AllReduce(l.work.send, l.work.recv, l.work.count, l.type(), l.op(), l.comm, l.stream);
}

ncclResult_t reduce(const Launch& l) {
    return l.nccl.Reduce(l.work.send, l.work.recv, l.work.count, l.type(), l.op(), l.work.root, l.comm, l.stream);
}

ncclResult_t bcast(const Launch& l) {
    return l.nccl.Broadcast(l.work.recv, l.work.recv, l.work.count, l.type(), l.work.root, l.comm, l.stream);
}

ncclResult_t allgather(const Launch& l) {
    const auto* own = static_cast<const std::byte*>(l.work.recv) + static_cast<std::size_t>(l.rank) * l.work.bytes();
    return l.nccl.AllGather(l.work.in_place ? own : l.work.send, l.work.recv, l.work.count, l.type(), l.comm, l.stream);
}

ncclResult_t alltoall(const Launch& l) {
    // In place, the whole receive buffer has been copied to the scratch memory first: NCCL has no in-place exchange.
    const auto* send = static_cast<const std::byte*>(l.work.in_place ? l.work.scratch.data() : l.work.send);
    if (l.nccl.AlltoAll != nullptr)
        return l.nccl.AlltoAll(send, l.work.recv, l.work.count, l.type(), l.comm, l.stream);
    auto* recv = static_cast<std::byte*>(l.work.recv);
    GroupCall group(l.nccl);
    for (int peer = 0; peer < l.size; ++peer) {
        const std::size_t offset = static_cast<std::size_t>(peer) * l.work.bytes();
        group.add(l.nccl.Send(send + offset, l.work.count, l.type(), peer, l.comm, l.stream));
        group.add(l.nccl.Recv(recv + offset, l.work.count, l.type(), peer, l.comm, l.stream));
    }
    return group.end();
}

ncclResult_t reduce_scatter_block(const Launch& l) {
    // In place, MPI puts the result at the start of the buffer and leaves the rest unchanged; NCCL would put it at this
    // rank's block.
    void* recv = l.work.scratch ? l.work.scratch.data() : l.work.recv;
    return l.nccl.ReduceScatter(l.work.send, recv, l.work.count, l.type(), l.op(), l.comm, l.stream);
}

ncclResult_t reduce_scatter(const Launch& l) {
    int alike = 1;
    while (alike < l.size && l.work.counts[alike] == l.work.counts[0])
        ++alike;
    if (alike == l.size)
        return reduce_scatter_block(l);
    // Blocks of different sizes take one reduction to each rank that has a block.
    const auto* send = static_cast<const std::byte*>(l.work.send);
    void* recv = l.work.scratch ? l.work.scratch.data() : l.work.recv;
    GroupCall group(l.nccl);
    for (int rank = 0; rank < l.size; ++rank) {
        const std::size_t count = static_cast<std::size_t>(l.work.counts[rank]) * l.work.per_element;
        if (count != 0)
            group.add(l.nccl.Reduce(send, recv, count, l.type(), l.op(), rank, l.comm, l.stream));
        send += count * l.work.type_bytes;
    }
    return group.end();
}

// What distinguishes one collective from another.
struct Row {
    CallId id;
    bool reduces;
    ncclResult_t (*launch)(const Launch&);
    std::string_view operation;  // NCCL's function where it has one; otherwise the calls are a group
    // The scratch memory of an in-place call, in blocks of `count` elements: none, one, or one for each rank.
    enum : std::uint8_t { kNothing, kOneBlock, kAllBlocks } scratch;
    bool planned = false;  // exchange.cpp plans it
};

constexpr Row kRows[] = {
    {CallId::kAllreduce, true, allreduce, "ncclAllReduce", Row::kNothing},
    {CallId::kReduce, true, reduce, "ncclReduce", Row::kNothing},
    {CallId::kBcast, false, bcast, "ncclBroadcast", Row::kNothing},
    {CallId::kAllgather, false, allgather, "ncclAllGather", Row::kNothing},
    {CallId::kAlltoall, false, alltoall, "ncclAlltoAll", Row::kAllBlocks},
    {CallId::kReduceScatterBlock, true, reduce_scatter_block, "ncclReduceScatter", Row::kOneBlock},
    {CallId::kReduceScatter, true, reduce_scatter, "ncclReduceScatter", Row::kOneBlock},
    {CallId::kScan, true, nullptr, "", Row::kNothing},  // made by kernels only
    {CallId::kExscan, true, nullptr, "", Row::kNothing},
    {CallId::kGather, false, gather, "ncclGather", Row::kNothing, true},
    {CallId::kGatherv, false, exchange, "", Row::kNothing, true},
    {CallId::kScatter, false, scatter, "ncclScatter", Row::kNothing, true},
    {CallId::kScatterv, false, exchange, "", Row::kNothing, true},
    {CallId::kAllgatherv, false, allgatherv, "", Row::kNothing, true},
    {CallId::kAlltoallv, false, exchange, "", Row::kNothing, true},
    {CallId::kAlltoallw, false, exchange, "", Row::kNothing, true},
    {CallId::kNeighborAllgather, false, exchange, "", Row::kNothing, true},
    {CallId::kNeighborAllgatherv, false, exchange, "", Row::kNothing, true},
    {CallId::kNeighborAlltoall, false, exchange, "", Row::kNothing, true},
    {CallId::kNeighborAlltoallv, false, exchange, "", Row::kNothing, true},
    {CallId::kNeighborAlltoallw, false, exchange, "", Row::kNothing, true},
};

const Row* row_of(CallId id) {
    for (const Row& row : kRows)
        if (row.id == blocking_form(id))
            return &row;
    return nullptr;
}

// Determines the address of a contiguous operand's first data byte and records its location in `work`; returns an
// obstacle otherwise.
Reason add(const Operand& operand, Work& work, void*& data) {
    const auto layout = datatype::layout_of(operand.type);
    if (!layout->contiguous)
        return Reason::kDerivedType;
    data = static_cast<std::byte*>(operand.address) + layout->true_lb;
    return take_location(data, work);
}

// Tells whether the result depends on the order of the operands, as it does where results are rounded. NCCL's order
// depends on the algorithm that it chooses, which depends on the machine.
bool depends_on_order(datatype::Operator op, datatype::Element element) {
    const bool rounds = element >= datatype::Element::kFloat16 && element <= datatype::Element::kComplexLongDouble;
    return rounds &&
           (op == datatype::Operator::kSum || op == datatype::Operator::kProd || op == datatype::Operator::kAvg);
}

Reason map_elements(const Row& row, const Call& call, const Operand& operand, int rank, Work& work) {
    work.counts = operand.counts();
    const auto count = static_cast<std::size_t>(work.counts ? work.counts[rank] : operand.count);
    if (!row.reduces) {
        work.type = ncclInt8;
        work.type_bytes = 1;
        work.count = count * datatype::size_of(operand.type);
        return Reason::kNone;
    }
    if (row.launch == nullptr)
        return Reason::kOperator;
    const datatype::Operator op = datatype::operator_of(call.op);
    const datatype::Element element = datatype::element_of(operand.type).element;
    if (settings::values().deterministic && depends_on_order(op, element))
        return Reason::kDeterministic;
    const Reduction how = reduction(op, element);
    if (how.obstacle != Reason::kNone)
        return how.obstacle;
    work.type = how.type;
    work.op = how.op;
    work.type_bytes = how.type_bytes;
    work.per_element = how.per_element;
    work.count = count * how.per_element;
    return Reason::kNone;
}

device::Result copy_block(const Copy& copy, device::Stream& device_stream) {
    return copy.rows == 1 ? device_stream.copy(copy.to, copy.from, copy.bytes)
                          : device_stream.copy_2d(copy.to, copy.pitch, copy.from, copy.pitch, copy.bytes, copy.rows);
}

std::string failed(const char* step, device::Result result) {
    return result == 0 ? std::string{} : fmt::format("{}: {}", step, device::describe(result));
}

}  // namespace

Ends ends_of(const Call& call, int rank) {
    Ends ends;
    for (const Operand& operand : call.operands) {
        const bool here = operand.at == At::kAll || (operand.at == At::kRoot) == (rank == call.root);
        if (!here)
            continue;
        if (operand.address == MPI_IN_PLACE) {
            ends.in_place = true;
            continue;
        }
        if (operand.shape == Shape::kRanksOwn && operand.counts()[rank] == 0)
            continue;
        (operand.access == Access::kIn ? ends.send : ends.recv) = &operand;
    }
    return ends;
}

Reason take_location(const void* data, Work& work) {
    const device::Location location = device::locate(data);
    if (!location.on_device())
        return Reason::kMixed;
    if (!location.primary)
        return Reason::kForeignContext;
    if (work.location.ordinal >= 0 && location.any_device)
        return Reason::kNone;
    if (work.location.ordinal >= 0 && work.location.ordinal != location.ordinal && !work.location.any_device)
        return Reason::kSeveralDevices;
    work.location = location;
    return Reason::kNone;
}

namespace {

// Has the launch's data moved by ncclSend and ncclRecv, between which ranks?
bool moves_blocks(const Work& work) {
    ncclResult_t (*const blocks)(const Launch&) = exchange;
    const auto launch = row_of(work.id)->launch;
    return !work.stages.empty() || launch == blocks || launch == gather || launch == scatter;
}

class Collective final : public Job {
  public:
    explicit Collective(std::vector<Work> works) : works_(std::move(works)) {}

    std::size_t launches() const override { return std::max<std::size_t>(works_.front().stages.size(), 1); }
    // The members of a process make the same calls.
    std::uint64_t shape(const Communicator& communicator) const override {
        const Work& work = works_.front();
        if (!has_collective())
            return 0;
        std::uint64_t hash = call::mix(static_cast<std::uint64_t>(blocking_form(work.id)), work.count);
        for (const int part : {work.type, work.op, work.root})
            hash = call::mix(hash, static_cast<std::uint64_t>(part));
        for (const Block& block : work.receives)
            hash = call::mix(hash, block.bytes);
        for (int r = 0; work.counts && r < communicator.size(); ++r)
            hash = call::mix(hash, static_cast<std::uint64_t>(work.counts[r]));
        return hash | 1;
    }

    void add_peers(std::size_t launch, std::size_t member, const Communicator& communicator,
                   Peers& peers) const override {
        const Work& work = works_[member];
        if (moves_blocks(work)) {
            for (const Block& block : sends(work, launch))
                peers.sends.push_back(block.peer);
            for (const Block& block : receives(work, launch))
                peers.receives.push_back(block.peer);
        } else if (!has_collective()) {
            peers.sends.resize(static_cast<std::size_t>(communicator.size()));
            std::iota(peers.sends.begin(), peers.sends.end(), 0);
            peers.receives = peers.sends;
        }
    }

    std::string before(std::size_t launch, std::size_t member, const Communicator& communicator,
                       device::Stream& device_stream) override {
        const Work& work = works_[member];
        std::string failure = launch == 0 ? pack(work, device_stream) : std::string();
        if (failure.empty() && work.stages.empty() && blocking_form(work.id) == CallId::kAlltoall && work.in_place)
            failure = failed("copying the buffer of an exchange in place",
                             device_stream.copy(work.scratch.data(), work.recv,
                                                work.bytes() * static_cast<std::size_t>(communicator.size())));
        for (const Copy& copy : work.stages.empty() ? work.copies : work.stages[launch].copies)
            if (failure.empty())
                failure = failed("copying a block to its place", copy_block(copy, device_stream));
        if (!work.stages.empty())
            for (datatype::ReduceWork reduction : work.stages[launch].reductions)
                if (failure.empty())
                    failure =
                        failed("reducing by a kernel", device_stream.launch(work.kernel, reduction.count, &reduction));
        return failure;
    }

    std::string after(std::size_t member, device::Stream& device_stream) override {
        const Work& work = works_[member];
        if (!work.stages.empty() || row_of(work.id)->scratch != Row::kOneBlock || !work.scratch)
            return unpack(work, device_stream);
        return failed("copying the result of a reduction in place",
                      device_stream.copy(work.recv, work.scratch.data(), work.bytes()));
    }

    Called call(std::size_t launch, std::size_t member, const Communicator& communicator,
                device::StreamHandle stream) override {
        const Work& work = works_[member];
        const Row& row = *row_of(work.id);
        const unsigned long groups = groups_begun;
        const Launch here{work,
                          communicator.handle(member),
                          communicator.rank() + static_cast<int>(member),
                          communicator.size(),
                          *load(),
                          stream};
        Called called;
        called.result =
            work.stages.empty() ? row.launch(here) : exchange(here, sends(work, launch), receives(work, launch));
        called.name = groups_begun != groups ? "ncclGroup" : row.operation;
        // What this rank sends to others where blocks are moved, otherwise what NCCL is given.
        called.bytes = work.stages.empty() ? work.bytes() : 0;
        for (const Block& block : sends(work, launch))
            called.bytes += block.bytes;
        return called;
    }

  private:
    bool has_collective() const {
        return !moves_blocks(works_.front()) && blocking_form(works_.front().id) != CallId::kAlltoall;
    }
    static const std::vector<Block>& sends(const Work& work, std::size_t launch) {
        return work.stages.empty() ? work.sends : work.stages[launch].sends;
    }
    static const std::vector<Block>& receives(const Work& work, std::size_t launch) {
        return work.stages.empty() ? work.receives : work.stages[launch].receives;
    }

    const std::vector<Work> works_;
};

}  // namespace

std::unique_ptr<Job> collective(std::vector<Work> works) {
    return std::make_unique<Collective>(std::move(works));
}

std::unique_ptr<Job> collective(Work work) {
    std::vector<Work> works;
    works.push_back(std::move(work));
    return collective(std::move(works));
}

std::unique_ptr<Job> barrier(device::Context context, std::string& failure) {
    constexpr std::size_t kBytes = 4;
    Work work;
    work.id = CallId::kAllreduce;
    work.type = ncclInt8;
    work.op = ncclMax;
    work.type_bytes = 1;
    work.count = kBytes;
    if (const device::Result got = device::Scratch::acquire(context, kBytes, work.scratch); got != 0) {
        failure = failed("no device memory for a barrier", got);
        return nullptr;
    }
    work.send = work.recv = work.scratch.data();
    return collective(std::move(work));
}

namespace {

// NCCL's kernels read and write elements as wholes, and the GPU ends a context that does so at another address.
bool aligned(const void* address, std::size_t type_bytes) {
    return reinterpret_cast<std::uintptr_t>(address) % type_bytes == 0;
}

Reason prepare_contiguous(const Row* row, const Call& call, int rank, int size, Work& work) {
    work.id = call.id;
    work.root = call.root;
    if (row->planned)
        return plan(call, rank, size, work);
    const Ends ends = ends_of(call, rank);
    work.in_place = ends.in_place;
    // Allgather and alltoall with MPI_IN_PLACE have only a receive operand; a reduction has only a send operand on
    // ranks other than the root.
    const Operand* sized = ends.recv != nullptr ? ends.recv : ends.send;
    if (sized == nullptr)
        return Reason::kInvalid;
    if (const Reason mapped = map_elements(*row, call, *sized, rank, work); mapped != Reason::kNone)
        return row->reduces ? plan_reduction(call, mapped, rank, size, work) : mapped;
    void* send = nullptr;
    if (ends.send != nullptr)
        if (const Reason obstacle = add(*ends.send, work, send); obstacle != Reason::kNone)
            return obstacle;
    if (ends.recv != nullptr)
        if (const Reason obstacle = add(*ends.recv, work, work.recv); obstacle != Reason::kNone)
            return obstacle;
    work.send = send != nullptr ? send : work.recv;
    if (work.recv == nullptr)
        work.recv = send;  // NCCL ignores it on this rank
    if (row->reduces && !(aligned(work.send, work.type_bytes) && aligned(work.recv, work.type_bytes)))
        return Reason::kUnaligned;
    if (work.in_place && row->scratch != Row::kNothing) {
        const std::size_t blocks = row->scratch == Row::kAllBlocks ? static_cast<std::size_t>(size) : 1;
        const std::size_t bytes = work.bytes() * blocks;
        if (bytes != 0 && device::Scratch::acquire(work.location.context, bytes, work.scratch) != 0)
            return Reason::kNoMemory;
    }
    return Reason::kNone;
}

}  // namespace

Reason prepare(const Call& call, int rank, int size, Work& work) {
    const Row* row = row_of(call.id);
    if (row == nullptr)
        return Reason::kOutsideNccl;
    if (pack::group_of(call.owner.comm).inter)
        return plan_between_groups(call, rank, size, work);
    if (!PackedCall::wanted(call))
        return prepare_contiguous(row, call, rank, size, work);
    PackedCall packed;
    if (const Reason obstacle = packed.make(call, work); obstacle != Reason::kNone)
        return obstacle;
    return prepare_contiguous(row, packed.call(), rank, size, work);
}

}  // namespace swy::nccl
