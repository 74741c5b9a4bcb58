// A collective on several buffers of each process goes through an exchange in its place among the communicator's calls:
// every rank tells how many places it has, what keeps them from NCCL, and which call it makes. Then all ranks know the
// same and take the same route, in the order of their calls. What NCCL needs is made by attempts of all ranks
// (comm/attempt.hpp): a blocking call waits for one where NCCL is not ready, one that does not block begins one and is
// staged.
#include "multi/collective.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "carrier/nccl/flight.hpp"
#include "carrier/nccl/local_members.hpp"
#include "comm/exchange.hpp"
#include "comm/places.hpp"
#include "comm/state.hpp"
#include "error/error.hpp"
#include "multi/arguments.hpp"
#include "multi/channel.hpp"
#include "multi/facts.hpp"
#include "multi/host_work.hpp"
#include "multi/setup.hpp"
#include "multi/tests.hpp"
#include "real.hpp"
#include "request/engine.hpp"
#include "request/handle.hpp"
#include "request/wait.hpp"
#include "route/agreement.hpp"
#include "route/asking.hpp"
#include "route/collective.hpp"
#include "route/under_way.hpp"
#include "settings/settings.hpp"

namespace swy::multi {
namespace {

namespace nccl = carrier::nccl;

struct Facts : route::Asked {  // of all ranks
    explicit Facts(std::size_t ranks) : all(ranks) {}
    Fact mine;
    std::vector<Fact> all;
};

class Collective final : public route::Collective {
  public:
    Collective(const ListCall& call, comm::State& state)
        : route::Collective(call.id, Owner(call.comm), state.rank, state.size),
          kept_(call),
          blocking_(call.request == nullptr),
          state_of_(state),
          comm_(comm::Places::of(state)),
          under_way_(std::in_place, blocking_ ? route::UnderWay::Kind::kBlocking : route::UnderWay::Kind::kBegun),
          facts_(std::make_shared<Facts>(static_cast<std::size_t>(state.size))) {}
    ~Collective() override {
        if (done())
            return;
        const request::Hold hold;  // its making has failed
        comm_->leave(this);
    }

    // Not under the lock. MPI's code.
    int begin(comm::State& state) {
        // Beside one that MPI_Comm_idup is making of the same ranks Open MPI would hang.
        if (blocking_ && comm_->order() == nullptr && !state.duplicated)
            if (const int rc = comm_->make_order(state); rc != MPI_SUCCESS)
                return rc;
        std::vector<int> before;
        {
            const request::Hold hold;
            order_ = comm_->order();
            before = comm_->counts;
            mine_.attempts = comm_->ended;
            mine_.tag = comm::Exchange::draw_tag();
            mine_.attempt_tag = comm::Exchange::draw_tag();
        }
        describe(before);
        facts_->mine = mine_;
        const int rc = real::Iallgather(&facts_->mine, sizeof mine_, MPI_BYTE, facts_->all.data(), sizeof mine_,
                                        MPI_BYTE, state.handle, &facts_->request);
        if (rc != MPI_SUCCESS)
            return rc;
        const request::Hold hold;
        comm_->enter(this);
        ++comm_->exchanges;
        asking_.emplace(state, facts_, 0, blocking_ ? settings::values().timeout : 0, route::kEntered);
        state_ = State::kAsking;
        return rc;
    }

  private:
    enum class State : std::uint8_t { kNew, kAsking, kSetUp, kTelling, kWaiting, kFlying, kCopying, kCalling, kCopied };

    // All that may be found out before the others are heard of.
    void describe(const std::vector<int>& before) {
        mine_.print = fingerprint(kept_, comm_->calls++);
        mine_.places = kept_.buffers();
        mine_.in_flight = under_way_->wants_turn();
        const Survey survey = survey_of(kept_);
        mine_.device = survey.device;
        mine_.host = survey.host;
        // Whatever the buffers are.
        const Reason before_all = !comm::Exchange::possible(state_of_) ? Reason::kForeign
                                  : !settings::values().nccl           ? Reason::kNcclOff
                                  : under_way_->must_be_staged()       ? Reason::kThreads
                                                                       : Reason::kNone;
        mine_.obstacle = static_cast<std::uint8_t>(before_all);
        const bool host_alone = kept_.buffers() > 0 && !mine_.device;
        const bool known = !before.empty() && before[static_cast<std::size_t>(rank_)] == kept_.buffers();
        if (known && !host_alone && !mine_.host && mine_.obstacle == 0)
            prepare_ahead(before);
    }

    // As if all ranks had as many places as in the call before.
    void prepare_ahead(const std::vector<int>& before) {
        const PlaceCounts assumed(before);
        LocalTest test(kept_, assumed, rank_);
        Reason why = test.obstacle;
        const request::Hold hold;
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
        flight_ = std::make_unique<nccl::MembersFlight>(std::move(works), comm_->nccl);
        return flight_->ready();
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
            case State::kWaiting:
                return launch();
            case State::kFlying:
                return fly();
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
            asking_.reset();
            if (!failure->empty()) {
                fail_here(MPI_ERR_OTHER, *failure);
                return true;
            }
        }
        if (!comm_->first(this))
            return false;
        decide();
        return true;
    }

    void decide() {
        const Verdict verdict = read(facts_->all, kept_);
        comm_->counts = verdict.counts;
        places_.emplace(verdict.counts);
        channel_.emplace(order_, state_of_, tags(facts_->all, &Fact::tag));
        any_device_ = verdict.any_device;
        in_turn_ = verdict.in_flight;
        if (verdict.mpi_class != MPI_SUCCESS)
            return fail_here(verdict.mpi_class, verdict.problem);
        if (!any_device_ || verdict.obstacle != Reason::kNone || verdict.all_ready)
            return take(verdict.obstacle);
        flight_.reset();
        if (blocking_) {
            state_ = State::kSetUp;
            return;
        }
        if (verdict.attempts_ended == comm_->begun)
            setup_.emplace(kept_, *places_, state_of_, comm_, facts_->all);
        take(Reason::kNotReady);
    }

    // Of a blocking call: when those that were begun before have ended here, one of its own; then all tell each other
    // whether they are ready.
    bool attempt() {
        if (!setup_) {
            if (comm_->ended != comm_->begun)
                return false;
            setup_.emplace(kept_, *places_, state_of_, comm_, facts_->all);
            return true;
        }
        const comm::Attempt& attempt = setup_->attempt();
        if (!attempt.done())
            return false;
        state_ = State::kTelling;
        if (attempt.outcome().mpi_class != MPI_SUCCESS)
            fail_here(MPI_ERR_OTHER, attempt.outcome().text);
        else if (attempt.why() != Reason::kNone)
            take(attempt.why());
        else if (setup_->tell(channel_->exchange(), ready(setup_->take_works())) != MPI_SUCCESS)
            fail_here(MPI_ERR_OTHER, "the set-up of the ranks failed");
        return true;
    }

    bool readied() {
        int code = MPI_SUCCESS;
        if (!channel_->exchange().done(code))
            return false;
        if (code != MPI_SUCCESS)
            fail_here(MPI_ERR_OTHER, "the set-up of the ranks failed");
        else
            take(setup_->all_ready() ? Reason::kNone : Reason::kNoMemory);
        return true;
    }

    // The route; under the lock, in the call's turn.
    void take(Reason why) {
        if (any_device_ && why == Reason::kNone) {
            ledger_.route(Carrier::kNccl, Reason::kNone);
            state_ = State::kWaiting;
            deadline_.emplace(settings::values().timeout);
            return;
        }
        flight_.reset();
        // A rank without device memory makes the same calls of MPI's: that is MPI's carrying for it.
        ledger_.route(mine_.device ? Carrier::kStaged : Carrier::kHost, mine_.device ? why : Reason::kNone);
        host_ = std::make_unique<HostWork>(kept_, *places_, rank_);
        note(host_->prepare());
        if (failed())
            return end_failed();
        note(host_->begin_copy_in());
        state_ = State::kCopying;
    }

    // A blocking call beside which nothing is launched in turn, on any rank, is launched by all at once: see
    // comm/order.hpp and route/under_way.hpp.
    bool launch() {
        const bool in_turn = in_turn_ || !blocking_;
        if (deadline_->passed()) {
            fail_here(MPI_ERR_OTHER, route::not_launched(order_ ? order_->missing({word()}) : MPI_PROC_NULL));
            return true;
        }
        if (!comm_->first(this))
            return false;
        if (in_turn && !channel_->arrived(word()))
            return false;
        if (in_turn && flight_ != nullptr && !turn_.begin(flight_->local().members().front().get()))
            return false;
        if (flight_ != nullptr)
            flight_->launch();
        if (in_turn)
            channel_->pass_on(word());
        state_ = State::kFlying;
        return true;
    }

    std::uint64_t word() const { return mine_.print.sequence; }

    bool fly() {
        if (flight_ == nullptr) {
            end({});
            return true;
        }
        const bool moved = flight_->step();
        if (flight_->settled())
            comm_->leave(this);
        const auto ended = nccl::ended(*flight_, *deadline_);
        if (!ended)
            return moved;
        if (ended->empty())
            end({});
        else
            fail_here(MPI_ERR_OTHER, *ended);
        return true;
    }

    bool call_mpi() {
        bool in = false;
        note(host_->query_in(in));
        if (!in || !comm_->first(this))
            return false;
        if (failed()) {
            end_failed();
            return true;
        }
        const int rc = channel_->begin(*host_);
        comm_->leave(this);
        if (rc != MPI_SUCCESS) {
            note(HostWork::failed(call(), rc));
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
        if (code != MPI_SUCCESS)
            note(HostWork::failed(call(), code));
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
        outcome_.text = failure.text;
    }

    void failing(const std::string& why) override {
        if (flight_ != nullptr && (state_ == State::kWaiting || state_ == State::kFlying))
            flight_->local().fail(why);
        if (state_ == State::kWaiting)
            channel_->give_up(word(), comm_->first(this));
    }

    void end_failed() { end(std::move(outcome_)); }

    void end(request::Outcome outcome) override {
        if (outcome.mpi_class == MPI_SUCCESS)
            tell();
        if (state_ == State::kCalling && host_ != nullptr)
            host_->abandon();
        comm_->leave(this);
        turn_.end();
        flight_.reset();
        host_.reset();
        under_way_.reset();
        finish(std::move(outcome));
    }

    const comm::State* comm_state() const override { return &state_of_; }

    void tell() {
        const std::size_t bytes = kept_.block_bytes() * static_cast<std::size_t>(kept_.buffers());
        if (blocking_)
            ledger_.close_call(call(), bytes);
        else
            ledger_.close(call(), bytes);
    }

    const Kept kept_;
    const bool blocking_;
    comm::State& state_of_;
    const std::shared_ptr<comm::Places> comm_;
    std::shared_ptr<comm::Order> order_;  // null where messages stand for it
    std::optional<route::UnderWay> under_way_;
    Fact mine_;
    const std::shared_ptr<Facts> facts_;
    std::optional<route::Asking> asking_;
    std::optional<PlaceCounts> places_;
    bool any_device_ = false, in_turn_ = false;
    std::unique_ptr<nccl::MembersFlight> flight_;
    std::unique_ptr<HostWork> host_;
    std::optional<Channel> channel_;
    std::optional<Setup> setup_;
    request::Outcome outcome_;
    comm::Turn turn_;
    std::optional<request::Deadline> deadline_;
    State state_ = State::kNew;
};

int run(const ListCall& call, comm::State& state) {
    auto operation = std::make_shared<Collective>(call, state);
    if (const int rc = operation->begin(state); rc != MPI_SUCCESS)
        return rc;
    {
        const request::Hold hold;
        request::add(operation);
    }
    if (call.request != nullptr)
        return request::hand_out(std::move(operation), call.request);
    request::wait_for(*operation);
    const request::Outcome& outcome = operation->outcome();
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
        return error::raise(Owner(call.comm), MPI_ERR_NO_MEM, fmt::format("{}: no host memory left", name(call.id)));
    }
}

}  // namespace swy::multi
