#include "nccl/collectives.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <span>

#include "datatype/element.hpp"
#include "datatype/layout.hpp"
#include "nccl/exchange.hpp"
#include "nccl/kernel_reduction.hpp"
#include "nccl/launch.hpp"
#include "nccl/library.hpp"
#include "nccl/mapping.hpp"
#include "nccl/packing.hpp"
#include "progress/wait.hpp"
#include "report/trace.hpp"
#include "settings/settings.hpp"

namespace swy::nccl {
namespace {

ncclResult_t allreduce(const Launch& l) {
    return l.nccl.AllReduce(l.work.send, l.work.recv, l.work.count, l.type(), l.op(), l.communicator.handle(),
                            l.stream());
}

ncclResult_t reduce(const Launch& l) {
    return l.nccl.Reduce(l.work.send, l.work.recv, l.work.count, l.type(), l.op(), l.work.root, l.communicator.handle(),
                         l.stream());
}

ncclResult_t bcast(const Launch& l) {
    return l.nccl.Broadcast(l.work.recv, l.work.recv, l.work.count, l.type(), l.work.root, l.communicator.handle(),
                            l.stream());
}

ncclResult_t allgather(const Launch& l) {
    const auto* own =
        static_cast<const std::byte*>(l.work.recv) + static_cast<std::size_t>(l.communicator.rank()) * l.work.bytes();
    return l.nccl.AllGather(l.work.in_place ? own : l.work.send, l.work.recv, l.work.count, l.type(),
                            l.communicator.handle(), l.stream());
}

ncclResult_t alltoall(const Launch& l) {
    // In place, the whole receive buffer has been copied to the scratch memory first: NCCL has no in-place exchange.
    const auto* send = static_cast<const std::byte*>(l.work.in_place ? l.work.scratch.data() : l.work.send);
    if (l.nccl.AlltoAll != nullptr)
        return l.nccl.AlltoAll(send, l.work.recv, l.work.count, l.type(), l.communicator.handle(), l.stream());
    auto* recv = static_cast<std::byte*>(l.work.recv);
    GroupCall group(l.nccl);
    for (int peer = 0; peer < l.communicator.size(); ++peer) {
        const std::size_t offset = static_cast<std::size_t>(peer) * l.work.bytes();
        group.add(l.nccl.Send(send + offset, l.work.count, l.type(), peer, l.communicator.handle(), l.stream()));
        group.add(l.nccl.Recv(recv + offset, l.work.count, l.type(), peer, l.communicator.handle(), l.stream()));
    }
    return group.end();
}

ncclResult_t reduce_scatter_block(const Launch& l) {
    // In place, MPI puts the result at the start of the buffer and leaves the rest unchanged; NCCL would put it at this
    // rank's block.
    void* recv = l.work.scratch ? l.work.scratch.data() : l.work.recv;
    return l.nccl.ReduceScatter(l.work.send, recv, l.work.count, l.type(), l.op(), l.communicator.handle(), l.stream());
}

ncclResult_t reduce_scatter(const Launch& l) {
    const std::span counts(l.work.counts, static_cast<std::size_t>(l.communicator.size()));
    if (std::equal(counts.begin() + 1, counts.end(), counts.begin()))
        return reduce_scatter_block(l);
    // Blocks of different sizes take one reduction to each rank that has a block.
    const auto* send = static_cast<const std::byte*>(l.work.send);
    void* recv = l.work.scratch ? l.work.scratch.data() : l.work.recv;
    GroupCall group(l.nccl);
    for (int rank = 0; rank < l.communicator.size(); ++rank) {
        const std::size_t count = static_cast<std::size_t>(l.work.counts[rank]) * l.work.per_element;
        if (count != 0)
            group.add(l.nccl.Reduce(send, recv, count, l.type(), l.op(), rank, l.communicator.handle(), l.stream()));
        send += count * l.work.type_bytes;
    }
    return group.end();
}

// What distinguishes one collective from another, for prepare() and run().
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
    work.counts = operand.counts;
    const auto count = static_cast<std::size_t>(operand.counts != nullptr ? operand.counts[rank] : operand.count);
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

device::Result queue(const Copy& copy, device::Stream& device_stream) {
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
        if (operand.shape == Shape::kRanksOwn && operand.counts[rank] == 0)
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

std::size_t launches_of(const Work& work) {
    return std::max<std::size_t>(work.stages.size(), 1);
}

namespace {

// Records the operation in the trace. Its bytes are what this rank sends to others where blocks are moved, otherwise
// what NCCL is given.
void trace(const Work& work, std::size_t launch, std::string_view operation, report::trace::Time begin,
           device::Stream& device_stream) {
    std::size_t bytes = work.stages.empty() ? work.bytes() : 0;
    for (const Block& block : work.stages.empty() ? work.sends : work.stages[launch].sends)
        bytes += block.bytes;
    if (!operation.empty())
        device_stream.launched(operation, bytes, begin);
}

}  // namespace

std::string before_launch(const Work& work, std::size_t launch, int ranks, device::Stream& device_stream) {
    std::string failure = launch == 0 ? pack(work, device_stream) : std::string();
    if (failure.empty() && work.stages.empty() && blocking_form(work.id) == CallId::kAlltoall && work.in_place)
        failure =
            failed("copying the buffer of an exchange in place",
                   device_stream.copy(work.scratch.data(), work.recv, work.bytes() * static_cast<std::size_t>(ranks)));
    for (const Copy& copy : work.stages.empty() ? work.copies : work.stages[launch].copies)
        if (failure.empty())
            failure = failed("copying a block to its place", queue(copy, device_stream));
    if (!work.stages.empty())
        for (datatype::ReduceWork reduction : work.stages[launch].reductions)
            if (failure.empty())
                failure =
                    failed("reducing by a kernel", device_stream.launch(work.kernel, reduction.count, &reduction));
    return failure;
}

std::string after_launches(const Work& work, device::Stream& device_stream) {
    if (!work.stages.empty() || row_of(work.id)->scratch != Row::kOneBlock || !work.scratch)
        return unpack(work, device_stream);
    return failed("copying the result of a reduction in place",
                  device_stream.copy(work.recv, work.scratch.data(), work.bytes()));
}

namespace {

// Called under launch_mutex.
ncclResult_t call_nccl(const Work& work, std::size_t launch, Communicator& communicator,
                       device::Stream& device_stream) {
    const Row& row = *row_of(work.id);
    const unsigned long groups = groups_begun;
    const report::trace::Started started;
    const Launch here{work, communicator, *load(), device_stream};
    const ncclResult_t result = work.stages.empty()
                                    ? row.launch(here)
                                    : exchange(here, work.stages[launch].sends, work.stages[launch].receives);
    if (report::trace::on)
        trace(work, launch, groups_begun != groups ? "ncclGroup" : row.operation, started.time, device_stream);
    return result;
}

}  // namespace

int launch_collective(const Work& work, std::size_t launch, Communicator& communicator, device::Stream& device_stream) {
    const std::scoped_lock lock(launch_mutex);
    return call_nccl(work, launch, communicator, device_stream);
}

int launch_together(std::span<const Work> works, std::size_t launch,
                    std::span<const std::shared_ptr<Communicator>> members, std::span<device::Stream> device_streams) {
    const std::scoped_lock lock(launch_mutex);
    GroupCall group(*load());
    for (std::size_t i = 0; i < works.size(); ++i) {
        const device::ContextScope scope(members[i]->context());
        group.add(call_nccl(works[i], launch, *members[i], device_streams[i]));
    }
    return group.end();
}

namespace {

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
        return Reason::kNotBuilt;
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
        return Reason::kNotBuilt;
    if (!PackedCall::wanted(call))
        return prepare_contiguous(row, call, rank, size, work);
    PackedCall packed;
    if (const Reason obstacle = packed.make(call, work); obstacle != Reason::kNone)
        return obstacle;
    return prepare_contiguous(row, packed.call(), rank, size, work);
}

std::string run(const Work& work, Communicator& communicator) {
    const progress::Deadline deadline(settings::values().timeout);
    const device::ContextScope scope(communicator.context());
    device::Stream& device_stream = communicator.device_stream();
    std::string failure = failed("waiting for the program's streams", progress::wait_for_program(device_stream));
    for (std::size_t launch = 0; launch < launches_of(work) && failure.empty(); ++launch) {
        failure = before_launch(work, launch, communicator.size(), device_stream);
        if (failure.empty())
            failure =
                communicator.wait_launched(launch_collective(work, launch, communicator, device_stream), deadline);
    }
    if (failure.empty())
        failure = after_launches(work, device_stream);
    if (failure.empty())
        failure = communicator.finish(deadline);
    if (!failure.empty())
        communicator.fail(failure);
    return failure;
}

}  // namespace swy::nccl
