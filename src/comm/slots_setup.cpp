#include "comm/slots_setup.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <numeric>
#include <utility>

#include "comm/setup.hpp"
#include "nccl/library.hpp"
#include "real.hpp"
#include "settings/settings.hpp"

namespace swy::comm {
namespace {

std::vector<int> ordinals_of(const std::vector<device::Location>& locations) {
    std::vector<int> ordinals;
    for (const device::Location& location : locations)
        ordinals.push_back(location.ordinal);
    return ordinals;
}

}  // namespace

SlotsSetup::SlotsSetup(CallId call, comm::State& state, std::shared_ptr<BufferSlots> slots, Asked asked)
    : Operation(call, state.handle),
      state_(state),
      slots_(std::move(slots)),
      asked_(std::move(asked)),
      exchange_(state, asked_.tags),
      deadline_(settings::values().timeout) {
    ++slots_->begun;
}

SlotsSetup::~SlotsSetup() {
    if (found_ != nullptr)
        found_->abort();
    exchange_.keep(std::move(memory_));
}

bool SlotsSetup::step() {
    try {
        return advance();
    } catch (const std::bad_alloc&) {
        why_ = Reason::kNoMemory;
        fail(MPI_ERR_NO_MEM, "no host memory left");
        ++slots_->ended;
        return true;
    }
}

// Goes through all steps whose messages have arrived.
bool SlotsSetup::advance() {
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
            ++slots_->ended;
        }
        if (done())
            return true;
    }
}

int SlotsSetup::end(Reason why) {
    why_ = why;
    ++slots_->ended;
    finish({});
    return MPI_SUCCESS;
}

int SlotsSetup::tell_facts() {
    const Head head{static_cast<std::uint8_t>(asked_.obstacle),
                    static_cast<std::uint8_t>(slots_->needs_setup(ordinals_of(asked_.devices)) ? 1 : 0)};
    const bool broken = slots_->nccl != nullptr && !slots_->nccl->usable();
    const auto own = static_cast<std::size_t>(asked_.numbers[static_cast<std::size_t>(rank())]);
    memory_->mine.resize(sizeof(Head) + own * sizeof(Fact));
    std::memcpy(memory_->mine.data(), &head, sizeof head);
    // Where a rank has an obstacle, its devices are not described: nothing will be made.
    for (std::size_t i = 0; i < std::min(own, asked_.devices.size()) && asked_.obstacle == Reason::kNone; ++i) {
        const Fact fact = own_fact(asked_.devices[i], broken);
        std::memcpy(memory_->mine.data() + sizeof head + i * sizeof fact, &fact, sizeof fact);
    }
    std::vector<std::size_t> bytes;
    for (const int number : asked_.numbers)
        bytes.push_back(sizeof(Head) + static_cast<std::size_t>(number) * sizeof(Fact));
    memory_->all.resize(std::accumulate(bytes.begin(), bytes.end(), std::size_t{0}));
    step_ = Step::kFacts;
    return exchange_.begin_gather(memory_->mine.data(), memory_->mine.size(), bytes, memory_->all.data());
}

int SlotsSetup::settle_facts() {
    auto why = Reason::kNone;
    bool needed = false;
    const std::byte* at = memory_->all.data();
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
        return end(why != Reason::kNone ? why : slots_->obstacle);
    if (std::any_of(facts_.begin(), facts_.end(), [](const Fact& f) { return f.broken != 0; }) &&
        slots_->nccl != nullptr)
        slots_->nccl->abort();
    slots_->begin_anew(ordinals_of(asked_.devices), obstacle_in(facts_));
    for (const device::Location& location : asked_.devices)
        note_device(location.ordinal);
    if ((slots_->obstacle == Reason::kNoNccl || slots_->obstacle == Reason::kOldNccl) && !asked_.devices.empty() &&
        nccl::load() == nullptr)
        complain(state_, nccl::problem());
    if (slots_->obstacle != Reason::kNone)
        return end(slots_->obstacle);
    for (const Fact& fact : facts_)
        group_.push_back(fact.member);
    const auto& numbers = asked_.numbers;
    proposer_ = static_cast<int>(std::find_if(numbers.begin(), numbers.end(), [](int number) { return number > 0; }) -
                                 numbers.begin());
    return propose(true);
}

// The first process with a device proposes.
int SlotsSetup::propose(bool may_reuse) {
    const auto size = static_cast<std::size_t>(exchange_.size());
    const auto proposer = static_cast<std::size_t>(proposer_);
    Exchange::Blocks sent{nullptr, std::vector<int>(size), std::vector<int>(size)};
    Exchange::Blocks received = sent;
    memory_->proposal = {};
    if (rank() == proposer_) {
        memory_->proposal.reuse = may_reuse ? nccl::Communicator::idle_id(group_) : 0;
        if (memory_->proposal.reuse == 0) {
            const std::string problem = nccl::Communicator::draw(memory_->proposal.unique);
            memory_->proposal.drawn = problem.empty() ? 1 : 0;
            if (!problem.empty())
                complain(state_, problem);
        }
        std::fill(sent.counts.begin(), sent.counts.end(), static_cast<int>(sizeof memory_->proposal));
        sent.counts[proposer] = 0;
        sent.address = &memory_->proposal;
    } else {
        received.counts[proposer] = sizeof memory_->proposal;
        received.address = &memory_->proposal;
    }
    step_ = Step::kProposal;
    return exchange_.begin(sent, received, MPI_BYTE);
}

int SlotsSetup::take_proposal() {
    if (memory_->proposal.reuse == 0)
        return make();
    found_ = nccl::Communicator::take_idle(group_, memory_->proposal.reuse);
    const std::vector<std::size_t> bytes(static_cast<std::size_t>(exchange_.size()), 1);
    memory_->mine.assign(1, std::byte{found_ != nullptr});
    memory_->all.resize(bytes.size());
    step_ = Step::kTaking;
    return exchange_.begin_gather(memory_->mine.data(), 1, bytes, memory_->all.data());
}

int SlotsSetup::settle_taking() {
    if (std::find(memory_->all.begin(), memory_->all.end(), std::byte{0}) == memory_->all.end()) {
        slots_->nccl = std::move(found_);
        return end(Reason::kNone);
    }
    nccl::Communicator::discard(std::exchange(found_, nullptr));
    return propose(false);
}

int SlotsSetup::make() {
    memory_->results.assign(static_cast<std::size_t>(exchange_.size()), Result::kUnknown);
    step_ = Step::kMaking;
    if (const int code = exchange_.receive_from_all(memory_->results.data(), sizeof(Result)); code != MPI_SUCCESS)
        return code;
    std::string problem;
    std::vector<device::Context> contexts;
    for (const device::Location& location : asked_.devices)
        contexts.push_back(location.context);
    const auto& numbers = asked_.numbers;
    const int first = std::accumulate(numbers.begin(), numbers.begin() + rank(), 0);
    if (memory_->proposal.drawn != 0)
        found_ = nccl::Communicator::begin(
            {.group = group_, .first = first, .contexts = contexts, .ids = std::span(&memory_->proposal.unique, 1)},
            problem);
    if (found_ != nullptr)
        return MPI_SUCCESS;
    if (!problem.empty())
        complain(state_, problem);
    return tell_result(Result::kFailed);
}

// A rank that gives up makes all ranks give up. Its message must arrive, so the deadline starts anew.
int SlotsSetup::tell_result(Result result) {
    deadline_ = progress::Deadline(settings::values().timeout);
    memory_->result = result;
    step_ = Step::kTelling;
    return exchange_.send_to_all(&memory_->result, sizeof memory_->result);
}

// A rank that has failed keeps the others waiting inside NCCL, so it tells them.
bool SlotsSetup::step_making() {
    int code = MPI_SUCCESS;
    static_cast<void>(exchange_.done(code));
    std::string problem;
    auto making = found_->step_make(problem);
    const bool failed_elsewhere =
        std::find(memory_->results.begin(), memory_->results.end(), Result::kFailed) != memory_->results.end();
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

void SlotsSetup::settle_making() {
    const bool all =
        std::all_of(memory_->results.begin(), memory_->results.end(), [](Result r) { return r == Result::kMade; });
    if (all) {
        slots_->nccl = std::exchange(found_, nullptr);
        slots_->nccl->set_failures(launch_failures(state_, slots_->nccl->id()));
        end(Reason::kNone);
        return;
    }
    if (found_ != nullptr)
        std::exchange(found_, nullptr)->abort();
    slots_->obstacle = Reason::kNcclFailed;
    end(Reason::kNcclFailed);
}

}  // namespace swy::comm
