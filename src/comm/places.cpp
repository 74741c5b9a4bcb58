#include "comm/places.hpp"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "carrier/nccl/library.hpp"
#include "comm/control.hpp"
#include "comm/establish.hpp"
#include "comm/making.hpp"
#include "real.hpp"
#include "request/engine.hpp"
#include "request/wait.hpp"
#include "settings/settings.hpp"

namespace swy::comm {
namespace {

namespace nccl = carrier::nccl;

// What the first process with a device proposes: an idle communicator's id, or a new group's.
struct Proposal {
    Undertaking undertaking = 0;
    std::uint64_t reuse = 0;
    std::uint64_t drawn = 0;
    nccl::UniqueId unique{};
};

std::vector<int> ordinals_of(const std::vector<device::Location>& locations) {
    std::vector<int> ordinals;
    for (const device::Location& location : locations)
        ordinals.push_back(location.ordinal);
    return ordinals;
}

}  // namespace

struct Places::Making {
    Making(const std::vector<int>& of_ranks, MPI_Comm on) : numbers(of_ranks), comm(on) {}
    const std::vector<int>& numbers;  // of devices, by rank
    MPI_Comm comm;                    // the private one
    int first = 0;                    // this process's first place
    int proposer = 0;                 // rank
    std::vector<device::Context> contexts;
    std::vector<Fact> facts;
    nccl::Group group;
    Proposal proposal;
};

std::shared_ptr<Places> Places::of(State& state) {
    if (state.places == nullptr)
        state.places = std::shared_ptr<Places>(new Places);
    return state.places;
}

Places::~Places() {
    retire();
}

void Places::retire() {
    nccl::Several::retire(std::move(nccl));
    nccl = nullptr;
}

int Places::make_order(State& state) {
    MPI_Comm shadow = MPI_COMM_NULL;
    const int rc = Order::make_shadow(state, &shadow);
    if (rc == MPI_SUCCESS)
        order_ = Order::adopt(state, shadow);
    return rc;
}

void Places::leave(const void* call) {
    queue_.erase(std::remove(queue_.begin(), queue_.end(), call), queue_.end());
}

void Places::await() {
    const auto through = [this] {
        const request::Hold hold;
        return exchanges == 0;
    };
    while (!through())
        request::progress();
}

bool Places::needs_setup(const std::vector<int>& devices) const {
    return !tried_ || devices != devices_ || (obstacle == Reason::kNone && (nccl == nullptr || !nccl->usable()));
}

int Places::gather(const std::vector<device::Location>& mine, Making& making) {
    const bool broken = nccl != nullptr && !nccl->usable();
    std::vector<Fact> own;
    for (const device::Location& location : mine)
        own.push_back(own_fact(location, broken));
    std::vector<int> bytes, starts;
    int total = 0;
    for (const int number : making.numbers) {
        bytes.push_back(number * static_cast<int>(sizeof(Fact)));
        starts.push_back(total);
        total += bytes.back();
    }
    making.facts.resize(static_cast<std::size_t>(total) / sizeof(Fact));
    return real::Allgatherv(own.data(), static_cast<int>(own.size() * sizeof(Fact)), MPI_BYTE, making.facts.data(),
                            bytes.data(), starts.data(), MPI_BYTE, making.comm);
}

int Places::propose(State& state, Making& making, bool may_reuse) {
    Proposal& proposal = making.proposal;
    if (state.rank == making.proposer) {
        proposal = {};
        proposal.undertaking = draw_undertaking();
        proposal.reuse = may_reuse ? nccl::Several::idle_id(making.group) : 0;
        if (proposal.reuse == 0) {
            const std::string problem = nccl::Communicator::draw(proposal.unique);
            proposal.drawn = problem.empty();
            if (!problem.empty())
                complain(state, problem);
        }
    }
    return real::Bcast(&proposal, sizeof proposal, MPI_BYTE, making.proposer, making.comm);
}

int Places::reuse(State&, Making& making) {
    auto found = nccl::Several::take_idle(making.group, making.proposal.reuse);
    const int here = found != nullptr ? 1 : 0;
    int all = 0;
    const int rc = real::Allreduce(&here, &all, 1, MPI_INT, MPI_MIN, making.comm);
    if (rc == MPI_SUCCESS && all == 1)
        nccl = std::move(found);
    else
        nccl::Several::discard(std::move(found));
    return rc;
}

int Places::make(State& state, Making& making) {
    const Proposal& proposal = making.proposal;
    const request::Deadline deadline(settings::values().timeout);
    std::string problem;
    std::shared_ptr<nccl::Several> made;
    if (proposal.drawn != 0)
        made = nccl::Several::begin(making.group, making.first, making.contexts, proposal.unique, 0, problem);
    bool waits = made != nullptr;
    while (waits) {
        const auto now = made->step_make(problem);
        waits = now == nccl::Communicator::Making::kUnderWay;
        request::progress();
        hear_failures();
        if (waits && deadline.passed())
            problem = "ncclCommInitRankConfig failed: SWITCHYARD_TIMEOUT has passed";
        if (!problem.empty() || (waits && failure_told(proposal.undertaking))) {
            made->abort();
            made = nullptr;
            waits = false;
        }
    }
    int told = 0;
    if (!problem.empty()) {
        complain(state, problem);
        told = tell_failure(ranks_in_world(state), state.rank, proposal.undertaking, problem) == MPI_SUCCESS ? 1 : 0;
    }
    const std::array<int, 2> mine{made == nullptr ? 1 : 0, told};
    std::array<int, 2> all{};  // ranks without their part, ranks that told so
    const int rc = real::Allreduce(mine.data(), all.data(), 2, MPI_INT, MPI_SUM, making.comm);
    if (rc == MPI_SUCCESS)
        hear_out(proposal.undertaking, all[1] - mine[1]);
    if (rc == MPI_SUCCESS && all[0] == 0) {
        nccl = std::move(made);
        nccl->tell_failures_by(launch_failures(state, nccl->id()));
        return rc;
    }
    if (made != nullptr)
        made->abort();
    obstacle = Reason::kNcclFailed;
    return rc;
}

int Places::establish(State& state, const std::vector<device::Location>& mine, const std::vector<int>& numbers) {
    Making making(numbers, order_->shadow());
    making.first = std::accumulate(numbers.begin(), numbers.begin() + state.rank, 0);
    making.proposer = static_cast<int>(
        std::find_if(numbers.begin(), numbers.end(), [](int number) { return number > 0; }) - numbers.begin());
    int rc = gather(mine, making);
    if (rc != MPI_SUCCESS)
        return rc;
    if (std::any_of(making.facts.begin(), making.facts.end(), [](const Fact& f) { return f.broken != 0; }) &&
        nccl != nullptr)
        nccl->abort();
    nccl::Several::retire(std::move(nccl));
    nccl = nullptr;
    tried_ = true;
    devices_ = ordinals_of(mine);
    obstacle = obstacle_in(making.facts);
    for (const device::Location& location : mine) {
        making.contexts.push_back(location.context);
        note_device(location.ordinal);
    }
    if ((obstacle == Reason::kNoNccl || obstacle == Reason::kOldNccl) && !mine.empty() && nccl::load() == nullptr)
        complain(state, nccl::problem());
    if (obstacle != Reason::kNone)
        return rc;
    for (const Fact& fact : making.facts)
        making.group.push_back(fact.member);
    rc = propose(state, making, true);
    if (rc == MPI_SUCCESS && making.proposal.reuse != 0) {
        rc = reuse(state, making);
        if (rc != MPI_SUCCESS || nccl != nullptr)
            return rc;
        rc = propose(state, making, false);
    }
    return rc != MPI_SUCCESS ? rc : make(state, making);
}

}  // namespace swy::comm
