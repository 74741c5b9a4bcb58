#include "coll/comm_created.hpp"

#include <array>
#include <cstdint>
#include <memory>
#include <new>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "call/depth.hpp"
#include "call/job.hpp"
#include "comm/launch_order.hpp"
#include "comm/setup.hpp"
#include "comm/state.hpp"
#include "nccl/communicator.hpp"
#include "p2p/pair_comms.hpp"
#include "progress/engine.hpp"
#include "progress/wait.hpp"
#include "real.hpp"
#include "report/trace.hpp"
#include "settings/settings.hpp"

namespace swy::coll {
namespace {

// While it lives no message is newly launched on the parent's NCCL communicator.
class Quiet {
  public:
    explicit Quiet(const comm::State& parent) : parent_(parent) {
        const progress::Hold hold;
        announced_.emplace(parent);
    }
    ~Quiet() {
        const progress::Hold hold;
        announced_.reset();
    }
    Quiet(const Quiet&) = delete;
    Quiet& operator=(const Quiet&) = delete;

    // Is nothing reserved or under way there, and will nothing be? Non-blocking collectives wait in the launch order.
    bool complete() const {
        const progress::Hold hold;
        return announced_->nothing_reserved() && (parent_.order == nullptr || parent_.order->empty());
    }

  private:
    const comm::State& parent_;
    std::optional<p2p::pair_comms::Announced> announced_;
};

// Returns the ranks of `made`, by rank, as ranks of the parent.
std::vector<int> ranks_in_parent(const comm::State& parent, MPI_Comm made, int size) {
    std::vector<int> ranks(static_cast<std::size_t>(size)), found(ranks.size());
    std::iota(ranks.begin(), ranks.end(), 0);
    MPI_Group child = MPI_GROUP_NULL;
    MPI_Group all = MPI_GROUP_NULL;
    real::Comm_group(made, &child);
    real::Comm_group(parent.handle, &all);
    real::Group_translate_ranks(child, size, ranks.data(), all, found.data());
    real::Group_free(&child);
    real::Group_free(&all);
    return found;
}

// Is the number the same on all ranks of `comm`, and not 0?
bool all_have(std::uint64_t number, MPI_Comm comm) {
    const std::array<std::uint64_t, 2> mine{number, ~number};
    std::array<std::uint64_t, 2> largest{};
    return real::Allreduce(mine.data(), largest.data(), 2, MPI_UINT64_T, MPI_MAX, comm) == MPI_SUCCESS && number != 0 &&
           largest[0] == ~largest[1];
}

// This rank's part in a split, or what keeps it from one.
struct Plan {
    bool possible = false;
    comm::State* state = nullptr;
    std::shared_ptr<nccl::Communicator> child;  // null where none is wanted
};

// Collective over `made` where that is a communicator of several ranks.
Plan plan_for(const comm::State& parent, MPI_Comm made) {
    Plan plan;
    plan.possible = parent.nccl->can_split();
    int size = 1;
    if (made != MPI_COMM_NULL)
        real::Comm_size(made, &size);
    if (size == 1)
        return plan;
    const std::vector<int> ranks = ranks_in_parent(parent, made, size);
    nccl::Group group;
    for (const int rank : ranks)
        group.push_back(parent.nccl->group()[static_cast<std::size_t>(rank)]);
    if (all_have(nccl::Communicator::idle_id(group), made))
        return plan;  // the first use takes the idle communicator
    plan.state = comm::of(made);
    if (plan.possible && plan.state != nullptr)
        plan.child = nccl::Communicator::plan_split(parent.nccl, std::move(group), plan.state->rank, ranks[0]);
    plan.possible = plan.child != nullptr;
    return plan;
}

// Splits the parent's NCCL communicator. All of the parent's ranks are here and know alike that it has one; that may
// have failed, or be at work, on some alone. NCCL wants nothing under way on it, on any rank (NCCL guide,
// ncclCommSplit), so where anything is there is no split: nobody waits.
void split_off(const comm::State& parent, MPI_Comm made) {
    const Quiet quiet(parent);
    Plan plan = plan_for(parent, made);
    const std::array<int, 2> mine{plan.possible && quiet.complete() ? 0 : 1, plan.child != nullptr ? 1 : 0};
    std::array<int, 2> any{};  // rank that cannot, rank that wants a child
    if (real::Allreduce(mine.data(), any.data(), 2, MPI_INT, MPI_MAX, parent.handle) != MPI_SUCCESS || any[0] != 0 ||
        any[1] == 0)
        return;
    const report::trace::Part part("ncclCommSplit");
    if (plan.child != nullptr)
        comm::begin_pending(*plan.state, plan.child, parent);
    parent.nccl->begin_split(plan.child);
    while (settings::values().eager && parent.nccl->splitting())
        progress::progress();
}

int make_at_once(comm::State& state) {
    const device::Location location = device::current_device();
    const bool ready = state.pending != nullptr && comm::is_made(*state.pending);
    const std::array<int, 2> mine{location.ordinal < 0 ? 1 : 0, ready ? 0 : 1};
    std::array<int, 2> any{};  // rank without a device, rank for which nothing is ready
    int rc = real::Allreduce(mine.data(), any.data(), 2, MPI_INT, MPI_MAX, state.handle);
    if (rc != MPI_SUCCESS)
        return rc;
    if (any[1] == 0) {
        comm::adopt_pending(state);
    } else {
        comm::discard_pending(state);
        if (any[0] != 0)
            return MPI_SUCCESS;
        rc = comm::set_up(state, location);
    }
    return rc == MPI_SUCCESS && state.nccl != nullptr ? comm::LaunchOrder::make(state) : rc;
}

}  // namespace

int make_eagerly(MPI_Comm comm) {
    comm::State* state = call::job_agrees && settings::values().nccl ? comm::of(comm) : nullptr;
    const bool none = state == nullptr || state->inter || state->spans_jobs || state->size == 1;
    return none ? MPI_SUCCESS : make_at_once(*state);
}

void duplicates(MPI_Comm comm) {
    if (!call::job_agrees || comm == MPI_COMM_NULL)
        return;
    if (comm::State* state = comm::of(comm); state != nullptr)
        state->duplicated = true;
}

int on_comm_created(MPI_Comm parent, MPI_Comm made) {
    if (call::inside() || !call::job_agrees)
        return MPI_SUCCESS;
    const call::Inside guard;
    const comm::State* from = parent != MPI_COMM_NULL ? comm::known(parent) : nullptr;
    if (from != nullptr && from->nccl != nullptr)
        split_off(*from, made);
    return settings::values().eager && made != MPI_COMM_NULL ? make_eagerly(made) : MPI_SUCCESS;
}

}  // namespace swy::coll
