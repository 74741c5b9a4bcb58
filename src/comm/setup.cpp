#include "comm/setup.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "call/hash.hpp"
#include "comm/job_messages.hpp"
#include "comm/setup_facts.hpp"
#include "comm/suggest.hpp"
#include "comm/tuned.hpp"
#include "comm/unique_ids.hpp"
#include "nccl/communicator.hpp"
#include "nccl/library.hpp"
#include "nccl/member.hpp"
#include "progress/engine.hpp"
#include "real.hpp"

namespace swy::comm {
namespace {

// What the first rank proposes: an idle communicator's id, or a new group's.
struct Proposal {
    OperationId operation_id = 0;
    std::uint64_t reuse = 0;
    std::uint64_t drawn = 0;
    nccl::UniqueId unique{};
};

std::atomic<int> last_device{-1};

}  // namespace

Fact own_fact(const device::Location& location, bool broken) {
    Fact fact;
    fact.member = nccl::member_here(location.ordinal);
    fact.nccl_version = nccl::load() != nullptr ? nccl::version() : 0;
    fact.old_library = nccl::too_old();
    fact.ranks_share_gpus = nccl::shares_gpus();
    fact.several_ids = nccl::Communicator::takes_several_ids();
    fact.gpu_model = call::fnv1a(device::device_name(location.ordinal));
    fact.broken = broken;
    return fact;
}

namespace {

Machine machine_in(const std::vector<Fact>& facts) {
    const auto alike = [&](auto field) {
        const bool all =
            std::all_of(facts.begin(), facts.end(), [&](const Fact& f) { return f.*field == facts.front().*field; });
        return all ? facts.front().*field : 0;
    };
    std::set<std::uint64_t> hosts;
    for (const Fact& fact : facts)
        hosts.insert(fact.member.host);
    return {static_cast<int>(hosts.size()), alike(&Fact::nccl_version), alike(&Fact::gpu_model)};
}

bool two_on_one_gpu(std::vector<Fact> facts) {
    auto slot = [](const Fact& f) { return std::pair(f.member.host, f.member.gpu); };
    std::sort(facts.begin(), facts.end(), [&](const Fact& a, const Fact& b) { return slot(a) < slot(b); });
    return std::adjacent_find(facts.begin(), facts.end(),
                              [&](const Fact& a, const Fact& b) { return slot(a) == slot(b); }) != facts.end();
}

}  // namespace

Reason obstacle_in(const std::vector<Fact>& facts) {
    const auto all = [&](auto test) { return std::all_of(facts.begin(), facts.end(), test); };
    if (!all([](const Fact& f) { return !f.old_library; }))
        return Reason::kOldNccl;
    if (!all([](const Fact& f) { return f.nccl_version != 0; }))
        return Reason::kNoNccl;
    if (!all([](const Fact& f) { return f.ranks_share_gpus != 0; }) && two_on_one_gpu(facts))
        return Reason::kDuplicateGpu;
    return Reason::kNone;
}

namespace {

int all_succeeded(const State& state, bool mine, bool& all) {
    const int here = mine ? 1 : 0;
    int least = 0;
    const int rc = real::Allreduce(&here, &least, 1, MPI_INT, MPI_MIN, state.handle);
    all = least == 1;
    return rc;
}

}  // namespace

void complain(const State& state, const std::string& problem) {
    static std::atomic<bool> said{false};
    if (!said.exchange(true))
        std::fprintf(stderr,
                     "switchyard: rank %d of a communicator of %d: %s. Device buffers of this communicator are staged "
                     "through host memory.\n",
                     state.rank, state.size, problem.c_str());
}

OperationId draw_operation_id() {
    static std::atomic<std::uint64_t> drawn{0};
    // Unique in the job: this process's host, its number there, and a count.
    static const std::uint64_t own = nccl::host_here() ^ (static_cast<std::uint64_t>(getpid()) << 20);
    return own + drawn.fetch_add(1);
}

namespace {

int propose(const State& state, Proposal& proposal, bool may_reuse, const nccl::Group& group) {
    if (state.rank == 0) {
        proposal = {};
        proposal.operation_id = draw_operation_id();
        proposal.reuse = may_reuse ? nccl::Communicator::idle_id(group) : 0;
        if (proposal.reuse == 0) {
            const std::string problem = nccl::Communicator::draw(proposal.unique);
            proposal.drawn = problem.empty();
            if (!problem.empty())
                complain(state, problem);
        }
    }
    return real::Bcast(&proposal, sizeof proposal, MPI_BYTE, 0, state.handle);
}

// Takes the proposed idle communicator where every rank has it; leaves state.nccl null otherwise.
int reuse(State& state, const Proposal& proposal, const nccl::Group& group) {
    auto found = nccl::Communicator::take_idle(group, proposal.reuse);
    bool all = false;
    const int rc = all_succeeded(state, found != nullptr, all);
    if (rc == MPI_SUCCESS && all)
        state.nccl = std::move(found);
    else
        nccl::Communicator::discard(std::move(found));
    return rc;
}

// Failures in what is launched on one NCCL communicator, told under its id. The ranks are those of the MPI communicator
// for which it was made; any other that it serves later has the same processes in the same order.
class LaunchFailures final : public nccl::Failures {
  public:
    LaunchFailures(const State& state, OperationId what)
        : world_(ranks_in_world(state)), rank_(state.rank), what_(what) {}
    ~LaunchFailures() override { forget_failures(what_); }
    LaunchFailures(const LaunchFailures&) = delete;
    LaunchFailures& operator=(const LaunchFailures&) = delete;

    void tell(const std::string& why) override { tell_failure(world_, rank_, what_, why); }

    std::string known() override {
        // receive_failures() takes a turn of MPI's progress, as does whoever waits here anyway, so not every call needs
        // one.
        constexpr unsigned kSeldom = 16;
        thread_local unsigned turns = 0;
        if (++turns % kSeldom == 0 && (!progress::held_here() || progress::may_poll()))
            receive_failures();
        Failure first;
        return failure_known(what_, &first) ? fmt::format("rank {} has failed in it: {}", first.rank, first.why)
                                            : std::string{};
    }

  private:
    const std::vector<int> world_;
    const int rank_;
    const OperationId what_;
};

}  // namespace

std::unique_ptr<nccl::Failures> launch_failures(const State& state, OperationId what) {
    return std::make_unique<LaunchFailures>(state, what);
}

namespace {

struct Part {  // what became of this rank's part in making a communicator
    std::shared_ptr<nccl::Communicator> made;
    bool told = false;  // it failed here, and the other ranks were told, which wait for this rank inside NCCL and would
                        // wait for ever
};

Part make_part(const State& state, const Proposal& proposal, std::span<const nccl::UniqueId> ids,
               const nccl::Group& group, const device::Location& location) {
    Part part;
    if (ids.empty())
        return part;
    std::string problem;
    const auto failed_elsewhere = [&] {
        receive_failures();
        return failure_known(proposal.operation_id);
    };
    part.made = nccl::Communicator::make(
        {.group = group, .first = state.rank, .contexts = std::span(&location.context, 1), .ids = ids},
        failed_elsewhere, problem);
    if (!problem.empty()) {
        complain(state, problem);
        part.told = tell_failure(ranks_in_world(state), state.rank, proposal.operation_id, problem) == MPI_SUCCESS;
    }
    return part;
}

// Collects the unique ids by which NCCL is to make the communicator; none where one could not be drawn. Returns MPI's
// code.
int all_ids(const State& state, const Proposal& proposal, int wanted, std::vector<nccl::UniqueId>& ids) {
    ids.assign(proposal.drawn, proposal.unique);
    if (ids.empty() || wanted == 1)
        return MPI_SUCCESS;
    std::string problem;
    const int rc = draw_others(state, proposal.unique, wanted, ids, problem);
    if (!problem.empty())
        complain(state, problem);
    return rc;
}

int make(State& state, const Proposal& proposal, int wanted_ids, const nccl::Group& group,
         const device::Location& location) {
    std::vector<nccl::UniqueId> ids;
    if (const int code = all_ids(state, proposal, wanted_ids, ids); code != MPI_SUCCESS)
        return code;
    Part part = make_part(state, proposal, ids, group, location);
    const std::array<int, 2> mine{part.made == nullptr ? 1 : 0, part.told ? 1 : 0};
    std::array<int, 2> all{};  // ranks without a communicator, ranks that told so
    const int rc = real::Allreduce(mine.data(), all.data(), 2, MPI_INT, MPI_SUM, state.handle);
    if (rc == MPI_SUCCESS)
        receive_failures_of(proposal.operation_id, all[1] - mine[1]);
    if (rc == MPI_SUCCESS && all[0] == 0) {
        state.nccl = std::move(part.made);
        state.nccl->set_failures(std::make_unique<LaunchFailures>(state, state.nccl->id()));
        return rc;
    }
    if (part.made != nullptr)
        part.made->abort();
    state.obstacle = Reason::kNcclFailed;
    return rc;
}

// Called when state.machine and state.ordinal are known.
void compare_with_tuning(State& state) {
    if (state.size == tuned_for.ranks)
        state.tuning = fits(state.machine, device::device_name(state.ordinal));
}

}  // namespace

int device_in_use() {
    return last_device.load(std::memory_order_relaxed);
}

void note_device(int ordinal) {
    last_device.store(ordinal, std::memory_order_relaxed);
}

int set_up(State& state, const device::Location& location) {
    std::vector<Fact> facts(static_cast<std::size_t>(state.size));
    const Fact mine = own_fact(location, state.nccl != nullptr && !state.nccl->usable());
    int rc = real::Allgather(&mine, sizeof mine, MPI_BYTE, facts.data(), sizeof mine, MPI_BYTE, state.handle);
    if (rc != MPI_SUCCESS)
        return rc;
    const bool broken = std::any_of(facts.begin(), facts.end(), [](const Fact& f) { return f.broken != 0; });
    if (state.nccl != nullptr && broken)
        state.nccl->abort();  // of no use to anybody when one member has given it up
    nccl::Communicator::retire(std::move(state.nccl));
    state.nccl = nullptr;
    state.ordinal = location.ordinal;
    note_device(location.ordinal);
    state.obstacle = obstacle_in(facts);
    state.machine = machine_in(facts);
    compare_with_tuning(state);
    if (state.obstacle == Reason::kNoNccl || state.obstacle == Reason::kOldNccl)
        if (mine.nccl_version == 0)
            complain(state, nccl::problem());
    nccl::Group group(facts.size());
    std::transform(facts.begin(), facts.end(), group.begin(), [](const Fact& f) { return f.member; });
    if (state.obstacle == Reason::kDuplicateGpu)
        warn_of_idle_gpus(state, group);
    if (state.obstacle != Reason::kNone)
        return MPI_SUCCESS;
    Proposal proposal;
    rc = propose(state, proposal, true, group);
    if (rc == MPI_SUCCESS && proposal.reuse != 0) {
        rc = reuse(state, proposal, group);
        if (rc != MPI_SUCCESS || state.nccl != nullptr)
            return rc;
        rc = propose(state, proposal, false, group);
    }
    const bool several = std::all_of(facts.begin(), facts.end(), [](const Fact& f) { return f.several_ids != 0; });
    return rc != MPI_SUCCESS ? rc : make(state, proposal, several ? ids_for(state.size) : 1, group, location);
}

}  // namespace swy::comm
