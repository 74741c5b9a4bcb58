// Checks the arguments of a collective on several buffers, as far as one process can.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "comm/buffer_slots.hpp"
#include "comm/exchange.hpp"
#include "datatype/extension.hpp"
#include "error/error.hpp"
#include "ext/multi/call.hpp"
#include "progress/engine.hpp"
#include "real.hpp"

namespace swy::multi {

namespace {

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
    if (comm::BufferSlots::of(state)->order() != nullptr || comm::Exchange::possible(state) ||
        (call.request == nullptr && !state.duplicated))
        return {};
    return "where no process has a GPU, or they are of jobs that were started apart, the first collective on several "
           "buffers on a communicator must be one that blocks, if only with nbufs 0, and not come after an "
           "MPI_Comm_idup: it has MPI make a private communicator, which waits for all ranks";
}

}  // namespace

int check(const ListCall& call, comm::State*& state) {
    const auto raise = [&](int mpi_class, const std::string& problem) {
        return error::raise(Owner(call.comm), mpi_class, fmt::format("{}: {}", name(call.id), problem));
    };
    std::string problem;
    state = state_of(call, problem);
    if (!problem.empty())
        return raise(MPI_ERR_COMM, problem);
    int mpi_class = MPI_SUCCESS;
    if (problem = problem_with(call, mpi_class); !problem.empty())
        return raise(mpi_class, problem);
    if (problem = progress::start_engine(); call.request != nullptr && !problem.empty())
        return raise(MPI_ERR_OTHER, problem);
    problem = problem_with_first(call, *state);
    return problem.empty() ? MPI_SUCCESS : raise(MPI_ERR_OTHER, problem);
}

}  // namespace swy::multi
