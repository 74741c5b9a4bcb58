#include "nccl/operation.hpp"

#include <mutex>
#include <utility>

#include "nccl/group_call.hpp"
#include "nccl/library.hpp"
#include "progress/engine.hpp"
#include "progress/stall.hpp"
#include "report/trace.hpp"
#include "settings/settings.hpp"

namespace swy::nccl {
namespace {

// How long MPI may take to hear of a process's end after NCCL has lost its connection to it: the launcher tells, by way
// of other hosts.
constexpr std::chrono::seconds kHearsay{2};

// NCCL forbids that two threads launch on one device at once (NCCL guide, "Thread safety").
std::mutex launch_mutex;

}  // namespace

// What is queued, and what NCCL may be working on. A thread that connects ranks shares it, and an aborted communicator
// keeps it until NCCL has let go of it.
class Operation::Body {
  public:
    Body(std::unique_ptr<Job> job, std::shared_ptr<Communicator> communicator)
        : job_(std::move(job)), communicator_(std::move(communicator)), streams_(communicator_->members()) {}

    void use_communicators_streams() {
        for (std::size_t member = 0; member < streams_.size(); ++member)
            streams_[member] = &communicator_->device_stream(member);
    }
    void use(device::Stream& programs) { streams_.front() = &programs; }
    void use_own_streams() { own_.resize(streams_.size()); }

    std::string ready() {
        return each_member([this](std::size_t member) -> std::string {
            device::Result result = 0;
            if (!own_.empty()) {
                result = device::Stream::acquire(communicator_->context(member), own_[member]);
                streams_[member] = &own_[member];
            }
            if (result == 0 && job_->uses_programs_memory())
                result = progress::wait_for_program(*streams_[member]);
            return result == 0 ? std::string{} : "no CUDA stream for NCCL: " + device::describe(result);
        });
    }

    // Puts all launches on the streams: what other ranks launch may wait for any of them.
    std::string queue() {
        std::string failure;
        for (std::size_t launch = 0; launch < job_->launches() && failure.empty(); ++launch) {
            failure = here(
                [&](std::size_t member) { return job_->before(launch, member, *communicator_, *streams_[member]); });
            if (failure.empty())
                failure = call(launch);
        }
        return failure.empty() ? here([&](std::size_t member) { return job_->after(member, *streams_[member]); })
                               : failure;
    }

    // Nobody waits for a launch under way any more: its thread leaves the streams alone from now on.
    void give_up() {
        const std::scoped_lock lock(mutex_);
        given_up_ = true;
    }

    std::vector<Peers> peers() const {
        std::vector<Peers> all(streams_.size());
        for (std::size_t launch = 0; launch < job_->launches(); ++launch)
            for (std::size_t member = 0; member < all.size(); ++member)
                if (job_->takes_part(member))
                    job_->add_peers(launch, member, *communicator_, all[member]);
        return all;
    }
    std::uint64_t shape() const { return job_->shape(*communicator_); }
    std::size_t steps() const { return job_->launches(); }

    // The events mark the operation's end once NCCL has put it on the streams.
    std::string record() {
        return each_member([this](std::size_t member) {
            const device::Result recorded = streams_[member]->record();
            return recorded != 0 ? device::describe(recorded) : std::string{};
        });
    }

    bool ended(device::Result& failed) {
        bool all = true;
        each_member([&](std::size_t member) {
            bool finished = false;
            if (failed == 0)
                failed = streams_[member]->query(finished);
            all &= finished;
            return std::string();
        });
        return all && failed == 0;
    }

    void trace() {
        for (const Launched& one : std::exchange(traced_, {}))
            streams_[one.member]->launched(one.called.name, one.called.bytes, one.begin);
    }

  private:
    struct Launched {
        std::size_t member;
        Called called;
        report::trace::Time begin;
    };

    template <typename Do>
    std::string each_member(Do action) {
        for (std::size_t member = 0; member < streams_.size(); ++member) {
            if (!job_->takes_part(member))
                continue;
            const device::ContextScope scope(communicator_->context(member));
            if (std::string failure = action(member); !failure.empty())
                return failure;
        }
        return {};
    }

    template <typename Do>
    std::string here(Do action) {
        const std::scoped_lock lock(mutex_);
        return given_up_ ? "it was given up" : each_member(action);
    }

    // Several members are one group: launched one after the other they would wait for each other.
    std::string call(std::size_t launch) {
        std::optional<GroupCall> group;
        if (streams_.size() > 1)
            group.emplace(*load());
        ncclResult_t last = ncclSuccess;
        each_member([&](std::size_t member) {
            const report::trace::Started started;
            const Called called = job_->call(launch, member, *communicator_, streams_[member]->stream());
            if (report::trace::on && !called.name.empty())
                traced_.push_back({member, called, started.time});
            last = static_cast<ncclResult_t>(called.result);
            if (group)
                group->add(last);
            return std::string();
        });
        if (group)
            last = group->end();
        return last == ncclSuccess ? std::string{} : nccl::describe(last, nullptr);
    }

    const std::unique_ptr<Job> job_;
    const std::shared_ptr<Communicator> communicator_;
    std::vector<device::Stream> own_;
    std::vector<device::Stream*> streams_;  // by member
    std::vector<Launched> traced_;
    std::mutex mutex_;
    bool given_up_ = false;
};

Operation::Operation(std::unique_ptr<Job> job, std::shared_ptr<Communicator> communicator, On on)
    : communicator_(std::move(communicator)), body_(std::make_shared<Body>(std::move(job), communicator_)) {
    if (on == On::kOwnStreams)
        body_->use_own_streams();
    else
        body_->use_communicators_streams();
    communicator_->enter(body_);
}

Operation::~Operation() {
    body_->give_up();
    communicator_->leave(body_.get());
}

bool Operation::ready() {
    failure_ = body_->ready();
    return failure_.empty();
}

void Operation::launch() {
    begin();
    tell_failure();
}

void Operation::begin() {
    const auto lock = communicator_->hold_handles();
    if (!communicator_->usable())
        return end(communicator_->why_unusable());
    if (!failure_.empty())
        return end(failure_);
    state_ = State::kWaiting;
    try_to_launch();
}

void Operation::try_to_launch() {
    {
        const std::scoped_lock one(launch_mutex);
        if (!communicator_->launch(body_->peers(), body_->shape(), body_->steps(),
                                   [body = body_] { return body->queue(); }))
            return;
    }
    state_ = State::kLaunching;
    counts_ = true;
    look_whether_launched();
}

void Operation::look_whether_launched() {
    std::optional<std::string> failure = communicator_->launched();
    if (!failure)
        return;
    if (failure->empty()) {
        state_ = State::kRunning;
        body_->trace();
        failure = body_->record();
    }
    if (!failure->empty())
        end(std::move(*failure));
}

bool Operation::step() {
    if (state_ == State::kNew || state_ == State::kDone)
        return false;
    if (state_ == State::kFailed) {
        if (explained())
            state_ = State::kDone;
        return done();
    }
    bool moved = advance();
    if (state_ < State::kFailed)
        if (std::string other = communicator_->failure_elsewhere(); !other.empty()) {
            end(std::move(other));
            moved = true;
        }
    tell_failure();
    return moved;
}

// Tells the other ranks, which wait in NCCL for this rank's part. Must not be called while the handles are held, since
// the communicator is aborted.
void Operation::tell_failure() {
    if (state_ >= State::kFailed && !failure_.empty())
        communicator_->fail(failure_);
}

bool Operation::explained() const {
    return failure_.empty() || !communicator_->may_be_explained() ||
           std::chrono::steady_clock::now() >= failed_at_ + kHearsay;
}

bool Operation::advance() {
    const auto lock = communicator_->hold_handles();
    if (!communicator_->usable()) {
        end(communicator_->why_unusable());
        return true;
    }
    if (state_ == State::kWaiting) {
        try_to_launch();
        return state_ != State::kWaiting;
    }
    if (state_ == State::kLaunching) {
        look_whether_launched();
        return state_ != State::kLaunching;
    }
    // The streams are queried before NCCL's state is: when they have come to their end, NCCL's state shows whether the
    // operation has failed.
    device::Result failed = 0;
    const bool finished = body_->ended(failed);
    if (const int now = communicator_->state(); now != 0)
        end(communicator_->describe(now));
    else if (failed != 0)
        end(device::describe(failed));
    else if (finished)
        end({});
    return state_ >= State::kFailed;
}

void Operation::end(std::string failure) {
    if (state_ == State::kLaunching)
        body_->give_up();
    leave_others();
    failure_ = std::move(failure);
    failed_at_ = std::chrono::steady_clock::now();
    state_ = explained() ? State::kDone : State::kFailed;
}

// The caller holds the handles, or the communicator has been aborted and nothing is launched any more.
void Operation::leave_others() {
    if (std::exchange(counts_, false))
        communicator_->ended();
}

std::optional<std::string> ended(const Operation& operation, const progress::Deadline& deadline) {
    const bool late = !operation.done() && deadline.passed();
    if (operation.done() || (late && !operation.failure().empty()))
        return operation.failure();
    if (late)
        return deadline.why() + ": all ranks had entered the call, the transfer did not finish";
    return std::nullopt;
}

void await_explanation(Communicator& communicator) {
    const auto end = std::chrono::steady_clock::now() + kHearsay;
    while (communicator.may_be_explained() && std::chrono::steady_clock::now() < end)
        progress::progress();
}

std::string run(std::unique_ptr<Job> job, const std::shared_ptr<Communicator>& communicator, MPI_Comm comm) {
    const progress::Deadline deadline(settings::values().timeout, comm);
    Operation operation(std::move(job), communicator, Operation::On::kCommunicatorsStreams);
    operation.ready();
    operation.launch();
    const auto describe = [] { return std::string("NCCL has not ended it"); };
    const progress::Waiting waiting(describe);
    for (;;) {
        operation.step();
        if (std::optional<std::string> over = ended(operation, deadline)) {
            if (!operation.done())
                communicator->fail(*over);
            return *over;
        }
        progress::progress();
    }
}

namespace {

// Waits until a launch that connects ranks is through.
std::string wait_launched(Communicator& communicator) {
    const progress::Deadline deadline(settings::values().timeout);
    for (;;) {
        {
            const auto lock = communicator.hold_handles();
            if (!communicator.usable())
                return communicator.why_unusable();
            if (std::optional<std::string> failure = communicator.launched())
                return *failure;
        }
        if (deadline.passed())
            return deadline.why();
        if (std::string other = communicator.failure_elsewhere(); !other.empty())
            return other;
        progress::progress();
    }
}

}  // namespace

std::string Operation::enqueue(std::unique_ptr<Job> job, const std::shared_ptr<Communicator>& communicator,
                               device::Stream& programs, std::shared_ptr<void>* in_graph) {
    const auto body = std::make_shared<Body>(std::move(job), communicator);
    body->use(programs);
    {
        const auto lock = communicator->hold_handles();
        if (!communicator->usable())
            return communicator->why_unusable();
        const std::scoped_lock one(launch_mutex);
        if (!communicator->launch(body->peers(), body->shape(), body->steps(), [body] { return body->queue(); }))
            return "something else is under way on its NCCL communicator";
        communicator->ended();  // nobody looks when it has
    }
    std::string failure = wait_launched(*communicator);
    body->give_up();
    if (in_graph != nullptr)
        *in_graph = body;
    else if (failure.empty())
        body->trace();
    return failure;
}

}  // namespace swy::nccl
