#include "comm/attempt.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <numeric>
#include <utility>

#include "carrier/nccl/library.hpp"
#include "comm/establish.hpp"
#include "real.hpp"
#include "settings/settings.hpp"

namespace swy::comm {
namespace {

namespace nccl = carrier::nccl;

std::vector<int> ordinals_of(const std::vector<device::Location>& locations) {
    std::vector<int> ordinals;
    for (const device::Location& location : locations)
        ordinals.push_back(location.ordinal);
    return ordinals;
}

}  // namespace

Attempt::Attempt(CallId call, comm::State& state, std::shared_ptr<Places> places, Asked asked)
    : Operation(call, state.handle),
      state_(state),
      places_(std::move(places)),
      asked_(std::move(asked)),
      exchange_(state, asked_.tags),
      deadline_(settings::values().timeout) {
    ++places_->begun;
}

Attempt::~Attempt() {
    if (found_ != nullptr)
        found_->abort();
}

bool Attempt::step() {
    try {
        return advance();
    } catch (const std::bad_alloc&) {
        fail(MPI_ERR_NO_MEM, "no host memory left");
        ++places_->ended;
        return true;
    }
}

// Through all that is there already.
bool Attempt::advance() {
    bool moved = false;
    for (;;) {
        if (step_ == Step::kMaking) {
            moved = step_making() || moved;
            if (step_ == Step::kMaking)
                return moved;
            continue;
        }
        int code = MPI_SUCCESS;
        if (!exchange_.done(code)) {
            if (!deadline_.passed())
                return moved;
            code = MPI_ERR_OTHER;
        }
        moved = true;
        if (code == MPI_SUCCESS) {
            switch (step_) {
                case Step::kNew:
                    code = tell_facts();
                    break;
                case Step::kFacts:
                    code = settle_facts();
                    break;
                case Step::kProposal:
                    code = take_proposal();
                    break;
                case Step::kTaking:
                    code = settle_taking();
                    break;
                case Step::kTelling:
                    settle_making();
                    break;
                case Step::kMaking:
                    break;
            }
        }
        if (code != MPI_SUCCESS && !done()) {
            why_ = Reason::kNcclFailed;
            fail(MPI_ERR_OTHER, "the ranks could not settle which NCCL communicator serves their devices");
            ++places_->ended;
        }
        if (done())
            return true;
    }
}

int Attempt::end(Reason why) {
    why_ = why;
    ++places_->ended;
    finish({});
    return MPI_SUCCESS;
}

int Attempt::tell_facts() {
    const Head head{static_cast<std::uint8_t>(asked_.obstacle),
                    static_cast<std::uint8_t>(places_->needs_setup(ordinals_of(asked_.devices)) ? 1 : 0)};
    const bool broken = places_->nccl != nullptr && !places_->nccl->usable();
    const auto own = static_cast<std::size_t>(asked_.numbers[static_cast<std::size_t>(rank())]);
    mine_.resize(sizeof(Head) + own * sizeof(Fact));
    std::memcpy(mine_.data(), &head, sizeof head);
    // Where one has an obstacle, its devices are not asked for: nothing will be made.
    for (std::size_t i = 0; i < std::min(own, asked_.devices.size()) && asked_.obstacle == Reason::kNone; ++i) {
        const Fact fact = own_fact(asked_.devices[i], broken);
        std::memcpy(mine_.data() + sizeof head + i * sizeof fact, &fact, sizeof fact);
    }
    std::vector<std::size_t> bytes;
    for (const int number : asked_.numbers)
        bytes.push_back(sizeof(Head) + static_cast<std::size_t>(number) * sizeof(Fact));
    all_.resize(std::accumulate(bytes.begin(), bytes.end(), std::size_t{0}));
    step_ = Step::kFacts;
    return exchange_.begin_gather(mine_.data(), mine_.size(), bytes, all_.data());
}

int Attempt::settle_facts() {
    auto why = Reason::kNone;
    bool needed = false;
    const std::byte* at = all_.data();
    for (const int number : asked_.numbers) {
        Head head;
        std::memcpy(&head, at, sizeof head);
        at += sizeof head;
        why = std::max(why, static_cast<Reason>(head.obstacle));
        needed |= head.needs_setup != 0;
        for (int i = 0; i < number; ++i, at += sizeof(Fact))
            std::memcpy(&facts_.emplace_back(), at, sizeof(Fact));
    }
    if (why != Reason::kNone || !needed)
        return end(why != Reason::kNone ? why : places_->obstacle);
    if (std::any_of(facts_.begin(), facts_.end(), [](const Fact& f) { return f.broken != 0; }) &&
        places_->nccl != nullptr)
        places_->nccl->abort();
    places_->begin_anew(ordinals_of(asked_.devices), obstacle_in(facts_));
    for (const device::Location& location : asked_.devices)
        note_device(location.ordinal);
    if ((places_->obstacle == Reason::kNoNccl || places_->obstacle == Reason::kOldNccl) && !asked_.devices.empty() &&
        nccl::load() == nullptr)
        complain(state_, nccl::problem());
    if (places_->obstacle != Reason::kNone)
        return end(places_->obstacle);
    for (const Fact& fact : facts_)
        group_.push_back(fact.member);
    const auto& numbers = asked_.numbers;
    proposer_ = static_cast<int>(std::find_if(numbers.begin(), numbers.end(), [](int number) { return number > 0; }) -
                                 numbers.begin());
    return propose(true);
}

// By the first process with a device.
int Attempt::propose(bool may_reuse) {
    const auto size = static_cast<std::size_t>(exchange_.size());
    const auto proposer = static_cast<std::size_t>(proposer_);
    Exchange::Blocks sent{nullptr, std::vector<int>(size), std::vector<int>(size)};
    Exchange::Blocks received = sent;
    proposal_ = {};
    if (rank() == proposer_) {
        proposal_.reuse = may_reuse ? nccl::LocalMembers::idle_id(group_) : 0;
        if (proposal_.reuse == 0) {
            const std::string problem = nccl::Communicator::draw(proposal_.unique);
            proposal_.drawn = problem.empty() ? 1 : 0;
            if (!problem.empty())
                complain(state_, problem);
        }
        std::fill(sent.counts.begin(), sent.counts.end(), static_cast<int>(sizeof proposal_));
        sent.counts[proposer] = 0;
        sent.address = &proposal_;
    } else {
        received.counts[proposer] = sizeof proposal_;
        received.address = &proposal_;
    }
    step_ = Step::kProposal;
    return exchange_.begin(sent, received, MPI_BYTE);
}

int Attempt::take_proposal() {
    if (proposal_.reuse == 0)
        return make();
    found_ = nccl::LocalMembers::take_idle(group_, proposal_.reuse);
    const std::vector<std::size_t> bytes(static_cast<std::size_t>(exchange_.size()), 1);
    mine_.assign(1, std::byte{found_ != nullptr});
    all_.resize(bytes.size());
    step_ = Step::kTaking;
    return exchange_.begin_gather(mine_.data(), 1, bytes, all_.data());
}

int Attempt::settle_taking() {
    if (std::find(all_.begin(), all_.end(), std::byte{0}) == all_.end()) {
        places_->nccl = std::move(found_);
        return end(Reason::kNone);
    }
    nccl::LocalMembers::discard(std::exchange(found_, nullptr));
    return propose(false);
}

int Attempt::make() {
    results_.assign(static_cast<std::size_t>(exchange_.size()), Result::kUnknown);
    step_ = Step::kMaking;
    if (const int code = exchange_.receive_from_all(results_.data(), sizeof(Result)); code != MPI_SUCCESS)
        return code;
    std::string problem;
    std::vector<device::Context> contexts;
    for (const device::Location& location : asked_.devices)
        contexts.push_back(location.context);
    const auto& numbers = asked_.numbers;
    const int first = std::accumulate(numbers.begin(), numbers.begin() + rank(), 0);
    if (proposal_.drawn != 0)
        found_ = nccl::LocalMembers::begin(group_, first, contexts, proposal_.unique, 0, problem);
    if (found_ != nullptr)
        return MPI_SUCCESS;
    if (!problem.empty())
        complain(state_, problem);
    return tell_result(Result::kFailed);
}

int Attempt::tell_result(Result result) {
    result_ = result;
    step_ = Step::kTelling;
    return exchange_.send_to_all(&result_, sizeof result_);
}

// A rank that has failed keeps the others waiting inside NCCL: it tells them.
bool Attempt::step_making() {
    int code = MPI_SUCCESS;
    static_cast<void>(exchange_.done(code));
    std::string problem;
    auto making = found_->step_make(problem);
    const bool failed_elsewhere = std::find(results_.begin(), results_.end(), Result::kFailed) != results_.end();
    if (making == nccl::Communicator::Making::kUnderWay) {
        if (deadline_.passed())
            problem = "ncclCommInitRankConfig failed: SWITCHYARD_TIMEOUT has passed";
        else if (!failed_elsewhere && code == MPI_SUCCESS)
            return false;
        found_->abort();
        making = nccl::Communicator::Making::kFailed;
    }
    const bool made = making == nccl::Communicator::Making::kMade;
    if (!made) {
        found_ = nullptr;
        if (!problem.empty())
            complain(state_, problem);
    }
    tell_result(made ? Result::kMade : Result::kFailed);
    return true;
}

void Attempt::settle_making() {
    const bool all = std::all_of(results_.begin(), results_.end(), [](Result r) { return r == Result::kMade; });
    if (all) {
        places_->nccl = std::exchange(found_, nullptr);
        places_->nccl->tell_failures_by(launch_failures(state_, places_->nccl->id()));
        end(Reason::kNone);
        return;
    }
    if (found_ != nullptr)
        std::exchange(found_, nullptr)->abort();
    places_->obstacle = Reason::kNcclFailed;
    end(Reason::kNcclFailed);
}

}  // namespace swy::comm
