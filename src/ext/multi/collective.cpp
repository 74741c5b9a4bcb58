// A collective on several buffers of each process begins with an exchange at its position among the communicator's
// calls: every rank tells how many slots it has, what prevents it from using NCCL, and which call it makes. All ranks
// then have the same facts and choose the same route, in the order of their calls. The NCCL communicator is set up by
// all ranks together (comm/setup.hpp): a blocking call waits for the set-up where NCCL is not ready, a
// non-blocking call begins one and is staged.
#include "ext/multi/collective.hpp"

#include <algorithm>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "coll/collective.hpp"
#include "coll/concurrent_collectives.hpp"
#include "coll/ordered_launch.hpp"
#include "coll/pending_agreement.hpp"
#include "comm/buffer_slots.hpp"
#include "comm/contribution.hpp"
#include "comm/exchange.hpp"
#include "comm/launch_order.hpp"
#include "comm/state.hpp"
#include "comm/where.hpp"
#include "error/error.hpp"
#include "error/required.hpp"
#include "ext/multi/channel.hpp"
#include "ext/multi/facts.hpp"
#include "ext/multi/host_work.hpp"
#include "ext/multi/setup.hpp"
#include "nccl/operation.hpp"
#include "progress/engine.hpp"
#include "progress/wait.hpp"
#include "real.hpp"
#include "request/handle.hpp"
#include "settings/settings.hpp"

namespace swy::multi {
namespace {

struct Facts final : coll::MpiExchange {  // those of all ranks
    explicit Facts(std::size_t ranks) : all(ranks) {}
    std::int64_t spread() const override {
        const auto earlier = [](const Fact& a, const Fact& b) { return a.time < b.time; };
        const auto [first, last] = std::minmax_element(all.begin(), all.end(), earlier);
        return last->time - first->time;
    }
    Fact mine;
    std::vector<Fact> all;
};

class Collective final : public coll::Collective {
  public:
    Collective(const ListCall& call, comm::State& state)
        : coll::Collective(call.id, Owner(call.comm), state.rank, state.size),
          kept_(call),
          blocking_(call.request == nullptr),
          state_of_(state),
          comm_(comm::BufferSlots::of(state)),
          under_way_(std::in_place, blocking_ ? coll::ConcurrentCollectives::Kind::kBlocking
                                              : coll::ConcurrentCollectives::Kind::kNonblocking),
          facts_(std::make_shared<Facts>(static_cast<std::size_t>(state.size))) {}
    ~Collective() override {
        if (done())
            return;
        const progress::Hold hold;  // reached when creating the call has failed
        leave();
    }

    // Must not be called under the lock. Returns MPI's code.
    int begin(comm::State& state) {
        if (blocking_ || state.size == 1)
            if (const int rc = comm::LaunchOrder::make_if_missing(state); rc != MPI_SUCCESS)
                return rc;
        order_ = state.order;
        if (order_ == nullptr && !comm::Exchange::possible(state))
            return error::raise(owner(), MPI_ERR_OTHER,
                                comm::where(call(), owner()) + ": MPI could make no private communicator");
        std::vector<int> before;
        {
            const progress::Hold hold;
            before = comm_->counts;
            nccl_failed_ = comm_->nccl_failed();
            mine_.attempts = comm_->ended;
            mine_.tag = comm::Exchange::draw_tag();
            mine_.attempt_tag = comm::Exchange::draw_tag();
        }
        determine(before);
        mine_.time = coll::time_of_vote();
        facts_->mine = mine_;
        const int rc = real::Iallgather(&facts_->mine, sizeof mine_, MPI_BYTE, facts_->all.data(), sizeof mine_,
                                        MPI_BYTE, state.handle, &facts_->request);
        if (rc != MPI_SUCCESS)
            return rc;
        const progress::Hold hold;
        enter();
        ++comm_->exchanges;
        const comm::OperationId what =
            state.spans_jobs ? 0 : comm::numbered(state, comm::Numbered::kMultiEntered, number());
        asking_.emplace(state, facts_, what, coll::kEntered);
        state_ = State::kAsking;
        return rc;
    }

  private:
    enum class State : std::uint8_t { kNew, kAsking, kSetUp, kTelling, kLaunching, kCopying, kCalling, kCopied };

    // Determines everything that can be known before the other ranks' facts arrive.
    void determine(const std::vector<int>& before) {
        mine_.print = fingerprint(kept_, state_of_.agreed_calls++);
        mine_.slots = kept_.buffers();
        mine_.in_flight = under_way_->wants_turn();
        const Survey survey = survey_of(kept_);
        mine_.device = survey.device;
        mine_.host = survey.host;
        // The obstacles that do not depend on the buffers.
        const Reason before_all = !comm::Exchange::possible(state_of_)               ? Reason::kSpansJobs
                                  : settings::values().nccl == settings::Nccl::kNo   ? Reason::kNcclOff
                                  : nccl_failed_ && settings::stages_after_failure() ? Reason::kNcclFailed
                                  : under_way_->must_be_staged()                     ? Reason::kThreads
                                  : order_ == nullptr                                ? Reason::kNotReady
                                                                                     : Reason::kNone;
        mine_.obstacle = static_cast<std::uint8_t>(before_all);
        const bool host_alone = kept_.buffers() > 0 && !mine_.device;
        const bool known = !before.empty() && before[static_cast<std::size_t>(rank_)] == kept_.buffers();
        if (known && !host_alone && !mine_.host && mine_.obstacle == 0)
            prepare_ahead(before);
    }

    // Prepares as if all ranks had as many slots as in the call before.
    void prepare_ahead(const std::vector<int>& before) {
        const SlotCounts assumed(before);
        LocalTest test(kept_, assumed, rank_);
        Reason why = test.obstacle;
        const progress::Hold hold;
        if (why == Reason::kNone && comm_->needs_setup(test.ordinals()))
            return;
        if (why == Reason::kNone)
            why = comm_->obstacle;
        if (why == Reason::kNone && !ready(std::move(test.works)))
            why = Reason::kNoMemory;
        mine_.obstacle = static_cast<std::uint8_t>(why);
        mine_.ready_for = hash_of(before);
        mine_.ready_on = comm_->nccl == nullptr ? 0 : comm_->nccl->id();
    }

    bool ready(std::vector<nccl::Work> works) {
        if (works.empty())
            return true;
        operation_ = std::make_unique<nccl::Operation>(nccl::collective(std::move(works)), comm_->nccl,
                                                       nccl::Operation::On::kOwnStreams);
        return operation_->ready();
    }

    bool advance() override {
        switch (state_) {
            case State::kNew:
                return false;
            case State::kSetUp:
                return attempt();
            case State::kTelling:
                return readied();
            case State::kAsking:
                return exchanged();
            case State::kLaunching:
                return step_launch();
            case State::kCopying:
                return call_mpi();
            case State::kCalling:
                return called();
            case State::kCopied:
                return copied_out();
        }
        return false;
    }

    bool exchanged() {
        if (asking_.has_value()) {
            const std::optional<std::string> failure = asking_->step();
            if (!failure.has_value())
                return false;
            --comm_->exchanges;
            if (!failure->empty()) {
                fail_here(MPI_ERR_OTHER, *failure);
                return true;
            }
            asking_.reset();
        }
        if (!first())
            return false;
        decide();
        return true;
    }

    void decide() {
        const Decision decision = read(facts_->all, kept_);
        comm_->counts = decision.counts;
        slots_.emplace(decision.counts);
        channel_.emplace(order_, state_of_, tags(facts_->all, &Fact::tag));
        if (!state_of_.spans_jobs)
            part_ = {order_ != nullptr ? order_->private_comm() : state_of_.handle,
                     comm::numbered(state_of_, comm::Numbered::kMulti, number())};
        any_device_ = decision.any_device;
        in_order_ = decision.in_flight;
        if (decision.mpi_class != MPI_SUCCESS)
            return fail_here(decision.mpi_class, decision.problem);
        if (!any_device_ || decision.obstacle != Reason::kNone || decision.all_ready)
            return take(decision.obstacle);
        operation_.reset();
        if (blocking_) {
            state_ = State::kSetUp;
            return;
        }
        if (decision.attempts_ended == comm_->begun)
            setup_.emplace(kept_, *slots_, state_of_, comm_, facts_->all);
        take(Reason::kNotReady);
    }

    // For a blocking call: when the set-ups that were begun before have ended here, begins one of its own; then all
    // ranks tell each other whether they are ready.
    bool attempt() {
        if (!setup_) {
            if (comm_->ended != comm_->begun)
                return false;
            setup_.emplace(kept_, *slots_, state_of_, comm_, facts_->all);
            return true;
        }
        if (!setup_->ended())
            return false;
        state_ = State::kTelling;
        deadline_.emplace(settings::values().timeout, state_of_.handle);
        const bool made = setup_->why() == Reason::kNone;
        if (setup_->tell(channel_->exchange(), made && ready(setup_->take_works())) != MPI_SUCCESS)
            fail_here(MPI_ERR_OTHER, "the set-up of the ranks failed");
        return true;
    }

    // A rank that has given up the set-up does not know its outcome on the other ranks.
    bool readied() {
        int code = MPI_SUCCESS;
        if (!channel_->exchange().done(code)) {
            if (!deadline_->passed())
                return false;
            fail_here(MPI_ERR_OTHER, deadline_->why() + " before all ranks had ended the set-up of NCCL");
            return true;
        }
        const Reason why = setup_->why();
        if (code != MPI_SUCCESS)
            fail_here(MPI_ERR_OTHER, "the set-up of the ranks failed");
        else if (setup_->all_ready())
            take(Reason::kNone);
        else
            take(why != Reason::kNone ? why : Reason::kNoMemory);
        return true;
    }

    // Chooses the route; called under the lock, in the order of the calls.
    void take(Reason why) {
        if (any_device_ && why == Reason::kNone) {
            record_.route(Carrier::kNccl, Reason::kNone, all_bytes());
            state_ = State::kLaunching;
            // A blocking call is launched by all ranks at once if, on every rank, no other operation is launched in
            // launch order meanwhile: see comm/launch_order.hpp and coll/concurrent_collectives.hpp.
            const bool in_order = in_order_ || !blocking_;
            launch_.emplace(std::move(operation_), order_, comm::Launch{number()},
                            in_order ? coll::OrderedLaunch::Turn::kInOrder : coll::OrderedLaunch::Turn::kAtOnce);
            return;
        }
        operation_.reset();
        if (const std::string refused = any_device_ ? error::refusal(why) : ""; !refused.empty())
            return fail_here(MPI_ERR_OTHER, refused);
        // A rank without device memory makes the same MPI calls: for it, MPI is the carrier.
        record_.route(mine_.device ? Carrier::kStaged : Carrier::kHost, mine_.device ? why : Reason::kNone,
                      all_bytes());
        host_ = std::make_unique<HostWork>(kept_, *slots_, rank_);
        note(host_->prepare());
        if (failed())
            return end_failed();
        spoil(host_->begin_copy_in());
        state_ = State::kCopying;
    }

    void spoil(const HostWork::Failure& failure) {
        if (failure && !failed())
            part_.fail(failure.why);
        note(failure);
    }

    bool step_launch() {
        const bool moved = launch_->step(first());
        if (launch_->launch_finished())
            leave_queue();
        if (!launch_->done())
            return moved;
        if (const std::string failure = launch_->failure(); !failure.empty())
            fail_here(MPI_ERR_OTHER, failure);
        else
            end({});
        return true;
    }

    std::uint64_t number() const { return mine_.print.sequence; }

    // Its place among the communicator's collectives. Without a launch order it needs none: it is staged, by messages
    // of its own.
    void enter() {
        ++comm_->calls;
        entered_ = true;
        if (order_ != nullptr)
            order_->enter(this);
    }
    bool first() const { return order_ == nullptr || order_->first(this); }
    void leave() {
        if (std::exchange(entered_, false))
            --comm_->calls;
        leave_queue();
    }
    void leave_queue() {
        if (order_ != nullptr)
            order_->leave(this);
    }

    // The other ranks wait for this rank's part, whether the copy has succeeded or not: see staging/staged.hpp.
    bool call_mpi() {
        bool in = false;
        spoil(host_->query_in(in));
        if (!in || !first() || !part_.told())
            return false;
        const int rc = channel_->begin(*host_);
        leave_queue();
        if (rc != MPI_SUCCESS) {
            note(host_->failed(rc));
            end_failed();
            return true;
        }
        state_ = State::kCalling;
        return true;
    }

    bool called() {
        int code = MPI_SUCCESS;
        if (!channel_->done(code))
            return false;
        note(staging::failure_elsewhere(call(), owner(), part_));
        if (code != MPI_SUCCESS)
            note(host_->failed(code));
        if (!failed())
            note(host_->finish_call());
        if (!failed())
            note(host_->begin_copy_out());
        state_ = State::kCopied;
        return true;
    }

    bool copied_out() {
        bool out = false;
        note(host_->query_out(out));
        if (!out)
            return false;
        if (failed())
            end_failed();
        else
            end({});
        return true;
    }

    bool failed() const { return outcome_.mpi_class != MPI_SUCCESS; }

    void note(const HostWork::Failure& failure) {
        if (!failure || failed())
            return;
        outcome_.mpi_class = failure.mpi_class;
        outcome_.text = failure.text();
    }

    void failing(const std::string&) override {
        if (order_ != nullptr && asking_.has_value())
            order_->give_up({number()});
    }

    void end_failed() { end(std::move(outcome_)); }

    void end(progress::Outcome outcome) override {
        if (outcome.mpi_class == MPI_SUCCESS)
            tell();
        leave();
        asking_.reset();
        launch_.reset();
        operation_.reset();
        using Used = std::pair<std::unique_ptr<HostWork>, std::shared_ptr<void>>;
        if (channel_)
            channel_->keep(std::make_shared<Used>(std::move(host_), setup_ ? setup_->memory() : nullptr));
        under_way_.reset();
        finish(std::move(outcome));
    }

    const comm::State* comm_state() const override { return &state_of_; }

    std::size_t all_bytes() const { return kept_.block_bytes() * static_cast<std::size_t>(kept_.buffers()); }

    void tell() {
        if (blocking_)
            record_.close_call(all_bytes());
        else
            record_.close(all_bytes());
    }

    const Kept kept_;
    const bool blocking_;
    comm::State& state_of_;
    const std::shared_ptr<comm::BufferSlots> comm_;
    std::shared_ptr<comm::LaunchOrder> order_;  // null where messages take the place of its private communicator
    std::optional<coll::ConcurrentCollectives> under_way_;
    Fact mine_;
    const std::shared_ptr<Facts> facts_;
    std::optional<coll::PendingAgreement> asking_;
    std::optional<SlotCounts> slots_;
    bool any_device_ = false, in_order_ = false, nccl_failed_ = false, entered_ = false;
    std::unique_ptr<nccl::Operation> operation_;
    std::unique_ptr<HostWork> host_;
    std::optional<Channel> channel_;
    std::optional<Setup> setup_;
    progress::Outcome outcome_;
    comm::Contribution part_;  // this rank's part in the real call
    std::optional<coll::OrderedLaunch> launch_;
    std::optional<progress::Deadline> deadline_;
    State state_ = State::kNew;
};

int run(const ListCall& call, comm::State& state) {
    auto operation = std::make_shared<Collective>(call, state);
    if (const int rc = operation->begin(state); rc != MPI_SUCCESS)
        return rc;
    {
        const progress::Hold hold;
        progress::add(operation);
    }
    if (call.request != nullptr)
        return request::hand_out(std::move(operation), call.request);
    progress::wait_for(*operation);
    const progress::Outcome& outcome = operation->outcome();
    return outcome.mpi_class == MPI_SUCCESS ? MPI_SUCCESS
                                            : error::raise(Owner(call.comm), outcome.mpi_class, outcome.text);
}

}  // namespace

int collective(const ListCall& call) {
    try {
        comm::State* state = nullptr;
        const int rc = check(call, state);
        return rc == MPI_SUCCESS ? run(call, *state) : rc;
    } catch (const std::bad_alloc&) {
        return error::raise(Owner(call.comm), MPI_ERR_NO_MEM,
                            comm::where(call.id, call.comm) + ": no host memory left");
    }
}

}  // namespace swy::multi
