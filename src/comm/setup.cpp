#include "comm/setup.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <new>
#include <numeric>
#include <span>
#include <utility>

#include "call/hash.hpp"
#include "comm/losses.hpp"
#include "comm/suggest.hpp"
#include "comm/unique_ids.hpp"
#include "error/loss.hpp"
#include "error/required.hpp"
#include "nccl/library.hpp"
#include "nccl/member.hpp"
#include "progress/engine.hpp"
#include "real.hpp"
#include "report/flight.hpp"
#include "settings/settings.hpp"

namespace swy::comm {
namespace {

std::atomic<int> last_device{-1};

OperationId draw_operation_id() {
    static std::atomic<std::uint64_t> drawn{0};
    // Unique in the job: this process's host, its number there, and a count.
    static const std::uint64_t own = nccl::host_here() ^ (static_cast<std::uint64_t>(getpid()) << 20);
    return own + drawn.fetch_add(1);
}

// Failures in what is launched on one NCCL communicator, told under its id. The ranks are those of the MPI communicator
// for which it was made; any other that it serves later has the same processes in the same order.
class LaunchFailures final : public nccl::Failures {
  public:
    LaunchFailures(std::vector<int> world, int rank, OperationId what)
        : world_(std::move(world)), rank_(rank), what_(what) {}
    ~LaunchFailures() override { forget_failures(what_); }
    LaunchFailures(const LaunchFailures&) = delete;
    LaunchFailures& operator=(const LaunchFailures&) = delete;

    bool may_be_explained() override { return error::survives && !all_hear_of_it(world_); }

    void tell(const std::string& why) override {
        if (!all_hear_of_it(world_))
            tell_failure(world_, rank_, what_, why);
    }

    std::string known() override {
        // receive_failures() takes a turn of MPI's progress, as does whoever waits here anyway, so not every call needs
        // one.
        constexpr unsigned kSeldom = 16;
        thread_local unsigned turns = 0;
        if (++turns % kSeldom == 0 && (!progress::held_here() || progress::may_poll()))
            receive_failures();
        if (const int place = first_lost(world_); place >= 0)
            return fmt::format("rank {} has failed", place);
        Failure first;
        return failure_known(what_, &first) ? fmt::format("rank {} has failed in it: {}", first.rank, first.why)
                                            : std::string{};
    }

  private:
    const std::vector<int> world_;
    const int rank_;
    const OperationId what_;
};

template <typename T>
void put(std::byte* at, const T& value) {
    std::memcpy(at, &value, sizeof value);
}
template <typename T>
T get(const std::byte* at) {
    T value;
    std::memcpy(static_cast<void*>(&value), at, sizeof value);
    return value;
}

}  // namespace

Setup::Setup(State& state, Plan plan, std::function<void(Result&)> ended)
    : Operation(CallId{}, state.handle),
      state_(state),
      plan_(std::move(plan)),
      ended_(std::move(ended)),
      exchange_(state, plan_.tags),
      deadline_(settings::values().timeout, state.handle) {}

Setup::~Setup() {
    if (found_ != nullptr)
        found_->abort();
    exchange_.keep(memory_);
}

bool Setup::step() {
    try {
        return advance();
    } catch (const std::bad_alloc&) {
        complain(state_, "no host memory left to set up NCCL");
        give_up();
        return true;
    }
}

// Rank 0 is in every set-up to its end.
std::string Setup::describe() const {
    return state_.rank == 0 ? "the set-up of an NCCL communicator by all ranks has not ended" : "";
}

// Goes through all steps whose messages have arrived.
bool Setup::advance() {
    bool moved = false;
    for (;;) {
        if (step_ == Step::kMaking) {
            if (!step_making())
                return moved;
        } else if (step_ == Step::kFailures) {
            if (!received_failures_of(proposal_.operation_id, told_by_others_))
                return moved;
            if (again_ == Again::kNow)
                make_room();
            else
                end(result_.why);
        } else if (step_ == Step::kRoom) {
            if (nccl::Communicator::ending() && !deadline_.passed())
                return moved;
            if (draw_ids() != MPI_SUCCESS)
                give_up();
        } else {
            int code = MPI_SUCCESS;
            if (!exchange_.done(code)) {
                if (!deadline_.passed())
                    return moved;
                code = MPI_ERR_OTHER;
                complain(state_, deadline_.why() + " before all ranks took part in setting up NCCL");
            }
            if (code != MPI_SUCCESS || go_on() != MPI_SUCCESS)
                give_up();
        }
        if (done())
            return true;
        moved = true;
    }
}

int Setup::go_on() {
    switch (step_) {
        case Step::kNew:
            return tell_facts();
        case Step::kFacts:
            return settle_facts();
        case Step::kTaking:
            return settle_taken();
        case Step::kIds:
            return begin_making();
        case Step::kTelling:
            settle_made();
            return MPI_SUCCESS;
        default:
            return MPI_SUCCESS;
    }
}

int Setup::begin_round(Step step, std::vector<std::size_t> bytes, std::size_t added, std::function<void()> add) {
    step_ = step;
    deadline_ = progress::Deadline(settings::values().timeout, state_.handle);
    starts_.assign(bytes.size() + 1, 0);
    std::partial_sum(bytes.begin(), bytes.end(), starts_.begin() + 1);
    memory_->resize(starts_.back() + added);
    return exchange_.begin_round(std::move(bytes), *memory_, std::move(add));
}

std::byte* Setup::block(std::size_t rank) {
    return memory_->data() + starts_[rank];
}

// A round's memory is filled in after begin_round(), which only receives into other ranks' blocks.
int Setup::tell_facts() {
    std::vector<std::size_t> bytes;
    for (const int number : plan_.numbers)
        bytes.push_back(sizeof(Head) + static_cast<std::size_t>(number) * sizeof(Fact));
    const int code = begin_round(Step::kFacts, std::move(bytes), sizeof(Proposal), [this] {
        read_facts();
        const bool any = obstacle_ == Reason::kNone && needed_ && obstacle_in(facts_) == Reason::kNone;
        proposal_ = {draw_operation_id(), any ? nccl::Communicator::idle_id(group_of(facts_)) : 0};
        put(memory_->data() + starts_.back(), proposal_);
    });
    const auto rank = static_cast<std::size_t>(exchange_.rank());
    put(block(rank), Head{static_cast<std::uint8_t>(plan_.obstacle), plan_.needed});
    const bool broken = plan_.before != nullptr && !plan_.before->usable();
    // Where a rank has an obstacle, its devices are not described: nothing will be made.
    const auto own = static_cast<std::size_t>(plan_.numbers[rank]);
    for (std::size_t i = 0; i < std::min(own, plan_.devices.size()) && plan_.obstacle == Reason::kNone; ++i)
        put(block(rank) + sizeof(Head) + i * sizeof(Fact), own_fact(plan_.devices[i], broken));
    return code;
}

void Setup::read_facts() {
    facts_.clear();
    for (std::size_t rank = 0; rank < plan_.numbers.size(); ++rank) {
        const std::byte* at = block(rank);
        const auto head = get<Head>(at);
        obstacle_ = std::max(obstacle_, static_cast<Reason>(head.obstacle));
        needed_ |= head.needed != 0;
        at += sizeof head;
        for (int i = 0; i < plan_.numbers[rank]; ++i, at += sizeof(Fact))
            facts_.push_back(get<Fact>(at));
    }
}

int Setup::settle_facts() {
    read_facts();
    proposal_ = get<Proposal>(memory_->data() + starts_.back());
    if (obstacle_ != Reason::kNone || !needed_)
        return end(obstacle_);
    result_.changed = true;
    result_.machine = machine_in(facts_);
    if (plan_.before != nullptr &&
        std::any_of(facts_.begin(), facts_.end(), [](const Fact& f) { return f.broken != 0; }))
        plan_.before->abort();  // of no use to anybody when one member has given it up
    for (const device::Location& location : plan_.devices)
        note_device(location.ordinal);
    group_ = group_of(facts_);
    const auto& numbers = plan_.numbers;
    const Reason why = obstacle_in(facts_);
    if ((why == Reason::kNoNccl || why == Reason::kOldNccl) && !plan_.devices.empty() && nccl::load() == nullptr &&
        is_first_without_nccl(facts_, first_member()))
        complain(state_, nccl::problem());
    if (why == Reason::kDuplicateGpu && std::all_of(numbers.begin(), numbers.end(), [](int n) { return n == 1; }))
        warn_of_idle_gpus(state_, group_);
    if (why != Reason::kNone)
        return end(why);
    return proposal_.reuse != 0 ? tell_taken() : draw_ids();
}

// Takes the proposed idle communicator where every rank has it.
int Setup::tell_taken() {
    const int code = begin_round(Step::kTaking, std::vector<std::size_t>(plan_.numbers.size(), 1));
    found_ = nccl::Communicator::take_idle(group_, proposal_.reuse);
    *block(static_cast<std::size_t>(exchange_.rank())) = std::byte{found_ != nullptr};
    return code;
}

int Setup::settle_taken() {
    if (std::find(memory_->begin(), memory_->end(), std::byte{0}) == memory_->end()) {
        result_.nccl = std::move(found_);
        return end(Reason::kNone);
    }
    nccl::Communicator::discard(std::exchange(found_, nullptr));
    return draw_ids();
}

// Each unique id is drawn by the process of the first member that it serves.
int Setup::draw_ids() {
    const int members = static_cast<int>(group_.size());
    const bool several = std::all_of(facts_.begin(), facts_.end(), [](const Fact& f) { return f.several_ids != 0; });
    const int ids = several ? ids_for(members) : 1;
    std::vector<int> ends(plan_.numbers.size());
    std::partial_sum(plan_.numbers.begin(), plan_.numbers.end(), ends.begin());
    std::vector<std::size_t> bytes(ends.size());
    drawers_.clear();
    for (int number = 0; number < ids; ++number) {
        const auto rank = std::upper_bound(ends.begin(), ends.end(), drawn_by(number, ids, members)) - ends.begin();
        drawers_.push_back(static_cast<std::size_t>(rank));
        bytes[drawers_.back()] += nccl::kUniqueIdBytes;
    }
    const int code = begin_round(Step::kIds, std::move(bytes));
    std::byte* at = block(static_cast<std::size_t>(exchange_.rank()));
    for (const std::size_t rank : drawers_) {
        if (rank != static_cast<std::size_t>(exchange_.rank()))
            continue;
        nccl::UniqueId id{};  // stays zero where it cannot be drawn: NCCL draws no such id
        if (const std::string problem = nccl::Communicator::draw(id); !problem.empty())
            complain(state_, problem);
        put(at, id);
        at += sizeof id;
    }
    return code;
}

// The number of this rank's first member in the group.
int Setup::first_member() const {
    return std::accumulate(plan_.numbers.begin(), plan_.numbers.begin() + exchange_.rank(), 0);
}

int Setup::begin_making() {
    std::vector<nccl::UniqueId> ids(drawers_.size());  // in the order of the ranks, as the blocks are
    std::memcpy(ids.data(), memory_->data(), memory_->size());
    if (std::find(ids.begin(), ids.end(), nccl::UniqueId{}) != ids.end())
        return end(Reason::kNcclFailed);
    std::vector<device::Context> contexts;
    for (const device::Location& location : plan_.devices)
        contexts.push_back(location.context);
    step_ = Step::kMaking;
    deadline_ = progress::Deadline(settings::values().timeout, state_.handle);
    std::string problem;
    found_ = nccl::Communicator::begin({.group = group_, .first = first_member(), .contexts = contexts, .ids = ids},
                                       problem);
    return found_ != nullptr ? MPI_SUCCESS : tell_made(problem);
}

bool Setup::step_making() {
    std::string problem;
    auto making = found_->step_make(problem);
    if (making == nccl::Communicator::Making::kUnderWay) {
        receive_failures();
        mine_.late = deadline_.passed();
        if (mine_.late)
            problem = deadline_.why() + " before NCCL's communicator was made";
        else if (!failure_known(proposal_.operation_id))
            return false;
        found_->abort();
        making = nccl::Communicator::Making::kFailed;
    }
    if (making == nccl::Communicator::Making::kFailed)
        found_ = nullptr;
    if (tell_made(problem) != MPI_SUCCESS)
        give_up();
    return true;
}

// A rank that has failed keeps the others waiting inside NCCL, so it tells them at once.
int Setup::tell_made(const std::string& problem) {
    problem_ = problem;
    if (!problem.empty())
        mine_.told = tell_failure(exchange_.world(), exchange_.rank(), proposal_.operation_id, problem) == MPI_SUCCESS;
    mine_.made = found_ != nullptr;
    mine_.idle = nccl::Communicator::has_idle_within(group_);
    const int code = begin_round(Step::kTelling, std::vector<std::size_t>(plan_.numbers.size(), sizeof(Made)));
    put(block(static_cast<std::size_t>(exchange_.rank())), mine_);
    return code;
}

void Setup::settle_made() {
    bool all = true, late = false, idle = false;
    for (std::size_t rank = 0; rank < plan_.numbers.size(); ++rank) {
        const auto made = get<Made>(block(rank));
        all &= made.made != 0;
        told_by_others_ += made.told;
        late |= made.late != 0;
        idle |= made.idle != 0;
    }
    told_by_others_ -= mine_.told;
    step_ = Step::kFailures;
    if (all) {
        found_->set_failures(std::make_unique<LaunchFailures>(exchange_.world(), exchange_.rank(), found_->id()));
        result_.nccl = std::exchange(found_, nullptr);
        return;
    }
    if (found_ != nullptr)
        std::exchange(found_, nullptr)->abort();
    again_ = again_ == Again::kMaybe && idle && !late ? Again::kNow : Again::kNoMore;
    if (again_ == Again::kNoMore)
        result_.why = Reason::kNcclFailed;
}

// NCCL does not say when it lacks device memory, of which an idle communicator may take some 800 MiB: without those the
// ranks try once more. The messages of failures have another id then.
void Setup::make_room() {
    // For what is being ended, which may take for ever. Others may wait for this rank meanwhile, as long as a limit
    // says.
    constexpr double kMost = 2;
    const double limit = settings::values().timeout;
    nccl::Communicator::end_idle_within(group_);
    again_ = Again::kNoMore;
    mine_ = {};
    told_by_others_ = 0;
    proposal_.operation_id = call::mix(proposal_.operation_id);
    deadline_ = progress::Deadline(limit > 0 ? std::min(kMost, limit / 2) : kMost);
    step_ = Step::kRoom;
}

void Setup::give_up() {
    result_.given_up = result_.changed = true;
    if (found_ != nullptr)
        std::exchange(found_, nullptr)->abort();
    end(Reason::kNcclFailed);
}

int Setup::end(Reason why) {
    result_.why = why;
    if (why == Reason::kNcclFailed && !problem_.empty())
        complain(state_, problem_);
    if (ended_)
        ended_(result_);
    finish({});
    return MPI_SUCCESS;
}

void complain(const State& state, const std::string& problem) {
    static std::atomic<bool> said{false};
    if (!said.exchange(true))
        std::fprintf(
            stderr, "switchyard: rank %d of a communicator of %d: %s. Device buffers of this communicator %s.\n",
            state.rank, state.size, problem.c_str(),
            error::nccl_is_required() ? "need NCCL (SWITCHYARD_NCCL=require)" : "are staged through host memory");
}

int device_in_use() {
    return last_device.load(std::memory_order_relaxed);
}

void note_device(int ordinal) {
    if (last_device.exchange(ordinal, std::memory_order_relaxed) != ordinal)
        report::flight::is_on(device::in_words(ordinal), nccl::version_text(), device::driver_text());
}

}  // namespace swy::comm
