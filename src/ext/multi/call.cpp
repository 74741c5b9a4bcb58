#include "ext/multi/call.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "comm/exchange.hpp"
#include "comm/where.hpp"
#include "datatype/extension.hpp"
#include "error/error.hpp"
#include "progress/engine.hpp"
#include "real.hpp"

namespace swy::multi {

namespace {

MPI_Count times(int count, int blocks) {
    return MPI_Count{count} * blocks;
}

std::string problem_with(const ListCall& call, int& mpi_class) {
    const auto is = [&](int of_class, std::string what) {
        mpi_class = of_class;
        return what;
    };
    if (call.buffers < 0)
        return is(MPI_ERR_COUNT, fmt::format("nbufs is {}", call.buffers));
    if (call.in_count < 0 || call.out_count < 0)
        return is(MPI_ERR_COUNT, fmt::format("a count is {}", std::min(call.in_count, call.out_count)));
    if (call.in_type == MPI_DATATYPE_NULL || call.out_type == MPI_DATATYPE_NULL)
        return is(MPI_ERR_TYPE, "a datatype is MPI_DATATYPE_NULL");
    const bool reduces =
        call.plain == CallId::kAllreduce || call.plain == CallId::kReduce || call.plain == CallId::kReduceScatterBlock;
    if (reduces && call.op == MPI_OP_NULL)
        return is(MPI_ERR_OP, "the operator is MPI_OP_NULL");
    if (reduces && datatype::operator_for(call.op, call.out_type, true) == MPI_OP_NULL)
        return is(MPI_ERR_OP, "the operator is not defined on this datatype");
    if ((call.plain == CallId::kBcast || call.plain == CallId::kReduce) && call.root < 0)
        return is(MPI_ERR_ROOT, fmt::format("root {} is not the number of a place", call.root));
    if (call.buffers == 0 || call.out_count == 0)
        return {};
    const bool takes_one = call.plain == CallId::kBcast;
    const bool one_gives = call.plain == CallId::kReduce;
    if ((call.in == nullptr && !takes_one) || (call.out == nullptr && !one_gives))
        return is(MPI_ERR_BUFFER, "a list of buffers is NULL, and nbufs is not 0");
    const bool all_in_place = call.in == static_cast<const void*>(MPI_IN_PLACE);
    const bool own_address = datatype::layout_of(call.out_type)->predefined;  // otherwise NULL may be MPI_BOTTOM
    for (int i = 0; own_address && i < call.buffers; ++i) {
        if (!all_in_place && !takes_one && call.in[i] == nullptr)
            return is(MPI_ERR_BUFFER, fmt::format("buffer {} of this process's {} is NULL", i, call.buffers));
        if (!one_gives && call.out[i] == nullptr)
            return is(MPI_ERR_BUFFER, fmt::format("receive buffer {} of {} is NULL", i, call.buffers));
    }
    return {};
}

comm::State* state_of(const ListCall& call, std::string& problem) {
    int inter = 0;
    if (call.comm != MPI_COMM_NULL)
        real::Comm_test_inter(call.comm, &inter);
    if (call.comm == MPI_COMM_NULL || inter != 0) {
        problem = call.comm == MPI_COMM_NULL ? "the communicator is MPI_COMM_NULL"
                                             : "the communicator is an intercommunicator: merge it first";
        return nullptr;
    }
    comm::State* state = comm::of(call.comm);
    if (state == nullptr)
        problem = "Switchyard is not up: it is between MPI_Init and MPI_Finalize, unless SWITCHYARD=0";
    return state;
}

std::string problem_with_first(const ListCall& call, comm::State& state) {
    if (state.order != nullptr || comm::Exchange::possible(state) ||
        (!state.duplicated && (call.request == nullptr || state.size == 1)))
        return {};
    return "where no process has a GPU, or they are of jobs that were started apart, the first collective on several "
           "buffers on a communicator must be one that blocks, if only with nbufs 0, and not come after an "
           "MPI_Comm_idup: it has MPI make a private communicator, which waits for all ranks";
}

}  // namespace

SlotCounts::SlotCounts(std::vector<int> counts) : counts_(std::move(counts)), first_(counts_.size() + 1) {
    std::partial_sum(counts_.begin(), counts_.end(), first_.begin() + 1);
}

int SlotCounts::rank_of(int slot) const {
    return static_cast<int>(std::upper_bound(first_.begin(), first_.end(), slot) - first_.begin()) - 1;
}

bool SlotCounts::some_without() const {
    return std::find(counts_.begin(), counts_.end(), 0) != counts_.end();
}

Kept::Kept(const ListCall& call) : call_(call) {
    const auto number = static_cast<std::size_t>(call.buffers);
    const void* const all_in_place = MPI_IN_PLACE;
    if (call.in == all_in_place)
        in_.assign(number, all_in_place);
    else if (call.in != nullptr && number > 0)
        in_.assign(call.in, call.in + number);
    if (call.out != nullptr && number > 0)
        out_.assign(call.out, call.out + number);
    in_.resize(number);
    out_.resize(number);
    call_.in = in_.data();
    call_.out = out_.data();
    call_.in_type = keep(call.in_type);
    call_.out_type = call.out_type == call.in_type ? call_.in_type : keep(call.out_type);
    block_bytes_ = static_cast<std::size_t>(call.out_count) * datatype::size_of(call.out_type);
}

// The program may free a type as soon as its call has returned (MPI 4.0 section 2.5.1).
MPI_Datatype Kept::keep(MPI_Datatype type) {
    return call_.request == nullptr ? type : types_.emplace_back(type).get();
}

bool Kept::in_place(int index) const {
    return in_[static_cast<std::size_t>(index)] == MPI_IN_PLACE;
}

void* Kept::given(int index) const {
    const void* address = in_[static_cast<std::size_t>(index)];
    return const_cast<void*>(
        address);  // NOLINT(cppcoreguidelines-pro-type-const-cast): MPI's own operands are not const
}

Call Kept::of_slot(int index, int slot, Operands& operands) const {
    Operand& send = operands[0];
    Operand& recv = operands[1];
    send = {.address = given(index), .count = call_.in_count, .type = call_.in_type, .access = Access::kIn};
    recv = {.address = out_[static_cast<std::size_t>(index)],
            .count = call_.out_count,
            .type = call_.out_type,
            .access = in_place(index) ? Access::kInOut : Access::kOut};
    switch (call_.plain) {
        case CallId::kReduce:
            recv.at = At::kRoot;
            if (in_place(index) && slot != call_.root)
                send.address = recv.address;
            break;
        case CallId::kAllgather:
            recv.shape = Shape::kRanks;
            break;
        case CallId::kAlltoall:
            send.shape = recv.shape = Shape::kRanks;
            break;
        case CallId::kReduceScatterBlock:
            send.shape = Shape::kRanksLocal;
            recv.shape = in_place(index) ? Shape::kRanksLocal : Shape::kOne;
            break;
        case CallId::kBcast:
            recv.access = Access::kInOut;
            break;
        default:
            break;
    }
    const std::span<const Operand> all(operands);
    return {.id = call_.plain,
            .owner = Owner(call_.comm),
            .operands = call_.plain == CallId::kBcast ? all.last(1) : all,
            .op = call_.op,
            .root = call_.root};
}

Operand Kept::sent(int index, int slot, int slots) const {
    Operand all{.address = given(index), .count = call_.in_count, .type = call_.in_type, .access = Access::kIn};
    const bool many = call_.plain == CallId::kAlltoall || call_.plain == CallId::kReduceScatterBlock;
    if (call_.plain == CallId::kBcast) {
        all.address = slot == call_.root ? out_[static_cast<std::size_t>(index)] : nullptr;
    } else if (in_place(index)) {
        // Where MPI takes the input from the output: all of it, or the slot's own block of it.
        all = {.address = out_[static_cast<std::size_t>(index)],
               .count = call_.out_count,
               .type = call_.out_type,
               .access = Access::kIn};
        if (call_.plain == CallId::kAllgather && all.address != nullptr)
            all.address = static_cast<std::byte*>(all.address) +
                          times(call_.out_count, slot) * datatype::layout_of(call_.out_type)->extent;
    }
    all.count = times(static_cast<int>(all.count), many ? slots : 1);
    return all;
}

Operand Kept::received(int index, int slot, int slots) const {
    Operand all{.address = out_[static_cast<std::size_t>(index)],
                .count = call_.out_count,
                .type = call_.out_type,
                .access = Access::kOut};
    const bool many = call_.plain == CallId::kAlltoall || call_.plain == CallId::kAllgather;
    const bool nothing =
        (call_.plain == CallId::kReduce && slot != call_.root) || (call_.plain == CallId::kBcast && slot == call_.root);
    if (nothing)
        all.address = nullptr;
    all.count = times(call_.out_count, many ? slots : 1);
    return all;
}

int check(const ListCall& call, comm::State*& state) {
    const auto raise = [&](int mpi_class, const std::string& problem) {
        return error::raise(Owner(call.comm), mpi_class, comm::where(call.id, call.comm) + ": " + problem);
    };
    std::string problem;
    state = state_of(call, problem);
    if (!problem.empty())
        return raise(MPI_ERR_COMM, problem);
    int mpi_class = MPI_SUCCESS;
    if (problem = problem_with(call, mpi_class); !problem.empty())
        return raise(mpi_class, problem);
    progress::start_engine();
    problem = problem_with_first(call, *state);
    return problem.empty() ? MPI_SUCCESS : raise(MPI_ERR_OTHER, problem);
}

}  // namespace swy::multi
