#include <fmt/format.h>

#include <array>
#include <chrono>
#include <optional>

#include "coll/operands.hpp"
#include "datatype/element.hpp"
#include "error/error.hpp"
#include "ext/stream/enqueue.hpp"
#include "ext/stream/message.hpp"
#include "nccl/collectives.hpp"
#include "nccl/operation.hpp"
#include "report/report.hpp"
#include "report/routes.hpp"

namespace swy::stream {
namespace {

constexpr std::size_t kOperands = 2;

// Tells whether the operand is significant on this rank and not MPI_IN_PLACE.
bool counts(const Call& call, const Operand& operand, int rank) {
    const bool here = operand.at == At::kAll || (operand.at == At::kRoot) == (rank == call.root);
    return here && operand.address != MPI_IN_PLACE;
}

std::size_t blocks(const Operand& operand, int size) {
    return operand.shape == Shape::kOne ? 1 : static_cast<std::size_t>(size);
}

// Tells whether MPI should make the call: it reports errors better itself, and calls that move nothing need no stream.
bool for_mpi(const Call& call, const Communicator& comm) {
    if (coll::message_bytes(call) == 0)
        return true;
    if (coll::rooted(call) && (call.root < 0 || call.root >= comm.size))
        return true;
    const Operand& last = call.operands.back();
    return last.address == MPI_IN_PLACE && !(call.id == CallId::kScatter && comm.rank == call.root);
}

// Tells whether the type is one of those for which it depends on each rank's node whether NCCL reduces them.
bool depends_on_node(const Call& call) {
    if (call.op == MPI_OP_NULL)
        return false;
    const datatype::Element element = datatype::element_of(call.operands.back().type).element;
    return element == datatype::Element::kFloat8E4m3 || element == datatype::Element::kFloat8E5m2;
}

// One collective that is being queued on the stream.
class Enqueued {
  public:
    Enqueued(const Call& call, Communicator& comm) : comm_(comm), call_(call) {
        if (!comm.captured)
            scope_.emplace(comm.device_stream);
        for (std::size_t i = 0; i < call.operands.size(); ++i)
            operands_[i] = call.operands[i];
        call_.operands = {operands_.data(), call.operands.size()};
    }

    // Returns the reason why the host must make it: the same on all ranks, since it follows from arguments that MPI
    // requires to be equal on all.
    Reason prepare(std::string& failure) {
        if (depends_on_node(call_))
            return Reason::kDatatype;
        failure = stage(Reason::kNone);
        if (!failure.empty())
            return Reason::kNone;
        Reason why = nccl::prepare(call_, comm_.rank, comm_.size, work_);
        if (is_own_affair(why)) {
            failure = stage(why);
            work_ = nccl::Work();
            if (failure.empty())
                why = nccl::prepare(call_, comm_.rank, comm_.size, work_);
        }
        if (why == Reason::kNone && !work_.stages.empty() && !comm_.all_have_kernels)
            return Reason::kOperator;
        if (why == Reason::kNoMemory || is_own_affair(why)) {
            failure = fmt::format("{}", explain(why));
            return Reason::kNone;
        }
        return why;
    }

    std::string launch() {
        std::string failure;
        for (StagedOperand& data : brought_)
            if (failure.empty())
                failure = data.in(comm_);
        if (failure.empty())
            failure = comm_.enqueue(nccl::collective(std::move(work_)));
        for (StagedOperand& data : brought_)
            if (failure.empty())
                failure = data.out(comm_);
        return failure;
    }

  private:
    static bool is_own_affair(Reason why) {
        return why == Reason::kMixed || why == Reason::kDerivedType || why == Reason::kSeveralDevices ||
               why == Reason::kForeignContext || why == Reason::kUnaligned;
    }

    // Stages the operands that are not on the stream's device, and where NCCL has been found unable to take those that
    // are, for the reason `why`, also all of them that are not aligned or do not lie in one run.
    std::string stage(Reason why) {
        for (std::size_t i = 0; i < call_.operands.size(); ++i) {
            Operand& operand = operands_[i];
            if (!counts(call_, operand, comm_.rank))
                continue;
            const auto layout = datatype::layout_of(operand.type);
            const std::size_t ranks = blocks(operand, comm_.size);
            const std::size_t count = static_cast<std::size_t>(operand.count) * ranks;
            const auto* first = static_cast<std::byte*>(operand.address) + layout->true_lb;
            const bool here = StagedOperand::is_here(comm_, first);
            const bool as_it_is = why != Reason::kUnaligned && (why == Reason::kNone || layout->contiguous);
            if (count * layout->size == 0 || (here && as_it_is))
                continue;
            if (comm_.captured)
                return not_in_graph(here ? explain(why) : "a buffer is not memory of the stream's GPU");
            StagedOperand& data = brought_[i];
            // MPI_Exscan leaves the first rank without a result.
            const Access access = call_.id == CallId::kExscan && comm_.rank == 0 ? Access::kIn : operand.access;
            if (std::string failure =
                    data.stage(comm_, {operand.address, count, operand.type, access, call_.op != MPI_OP_NULL, false});
                !failure.empty())
                return failure;
            if (data.packed()) {
                operand.type = MPI_BYTE;
                operand.count = static_cast<MPI_Count>(data.bytes() / ranks);
                operand.address = data.data();
            } else {
                operand.address = data.data() - layout->true_lb;
            }
        }
        return {};
    }

    Communicator& comm_;
    std::optional<device::ScratchInOrder> scope_;
    Call call_;
    std::array<Operand, kOperands> operands_;
    std::array<StagedOperand, kOperands> brought_;
    nccl::Work work_;
};

int failed(CallId id, const Communicator& comm, const std::string& why) {
    return error::raise(
        Owner(comm.handle), MPI_ERR_OTHER,
        fmt::format("{} on rank {} of a stream communicator ({} ranks): {}", name(id), comm.rank, comm.size, why));
}

int no_stream(CallId id, MPI_Comm comm) {
    return error::raise(
        Owner(comm), MPI_ERR_COMM,
        fmt::format("{}: the communicator has no stream: MPIX_Stream_comm_create makes those that have", name(id)));
}

int by_host(CallId id, Communicator& comm, Reason reason, std::size_t bytes, const Ordinary& ordinary,
            report::Time start) {
    const auto range = report::tell_route(id, Owner(comm.handle), bytes, Carrier::kStaged, reason);
    if (const std::string failure = comm.lock_and_wait(reason); !failure.empty())
        return failed(id, comm, failure);
    const int code = ordinary();
    if (report::enabled)
        report::tell_call(id, Carrier::kStaged, reason, bytes, start);
    return code;
}

// Called under the mutex. Launches what `enqueue` queues, behind the messages that were started before.
template <typename Enqueue>
std::string in_order(Communicator& comm, Enqueue enqueue) {
    std::string failure = comm.look_at_capture();
    if (failure.empty())
        failure = comm.trouble();
    if (failure.empty())
        failure = launch_pending(comm);
    if (!failure.empty())
        return failure;
    failure = enqueue();
    if (comm.captured)
        return failure;
    if (failure.empty())
        if (const device::Result recorded = comm.device_stream.record(); recorded != 0)
            failure = device::describe(recorded);
    if (!failure.empty())
        comm.fail(failure);
    return failure;
}

}  // namespace

int collective(CallId id, const Call& call, const Ordinary& ordinary) {
    const report::Time start = std::chrono::steady_clock::now();
    const auto comm = Communicator::find(call.owner.comm);
    if (comm == nullptr)
        return no_stream(id, call.owner.comm);
    const std::size_t bytes = report::enabled || report::wants_routes() ? coll::payload_bytes(call) : 0;
    if (!comm->direct())
        return by_host(id, *comm, comm->reason, bytes, ordinary, start);
    if (for_mpi(call, *comm))
        return ordinary();
    Reason reason = Reason::kNone;
    std::string failure;
    {
        const std::scoped_lock lock(comm->mutex);
        failure = in_order(*comm, [&] {
            Enqueued enqueued(call, *comm);
            std::string problem;
            reason = enqueued.prepare(problem);
            if (!problem.empty() || reason != Reason::kNone)
                return problem;
            const auto range = report::tell_route(id, call.owner, bytes, Carrier::kNccl, Reason::kNone,
                                                  comm->begin_queuing_collective(id));
            return enqueued.launch();
        });
    }
    if (!failure.empty())
        return failed(id, *comm, failure);
    if (reason != Reason::kNone)
        return by_host(id, *comm, reason, bytes, ordinary, start);
    if (report::enabled)
        report::tell_call(id, Carrier::kNccl, Reason::kNone, bytes, start);
    return MPI_SUCCESS;
}

int barrier(CallId id, MPI_Comm handle, const Ordinary& ordinary) {
    const report::Time start = std::chrono::steady_clock::now();
    const auto comm = Communicator::find(handle);
    if (comm == nullptr)
        return no_stream(id, handle);
    if (!comm->direct())
        return by_host(id, *comm, comm->reason, 0, ordinary, start);
    {
        const std::scoped_lock lock(comm->mutex);
        const std::string failure = in_order(*comm, [&] {
            const auto range = report::tell_route(id, Owner(handle), 0, Carrier::kNccl, Reason::kNone,
                                                  comm->begin_queuing_collective(id));
            std::optional<device::ScratchInOrder> scope;
            if (!comm->captured)
                scope.emplace(comm->device_stream);
            std::string why;
            auto job = nccl::barrier(comm->nccl->context(), why);
            return job == nullptr ? why : comm->enqueue(std::move(job));
        });
        if (!failure.empty())
            return failed(id, *comm, failure);
    }
    if (report::enabled)
        report::tell_call(id, Carrier::kNccl, Reason::kNone, 0, start);
    return MPI_SUCCESS;
}

}  // namespace swy::stream
