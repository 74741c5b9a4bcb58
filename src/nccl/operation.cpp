#include "nccl/operation.hpp"

#include <utility>

#include "nccl/launch.hpp"
#include "nccl/library.hpp"
#include "progress/wait.hpp"

namespace swy::nccl {

Operation::Operation(Work work, std::shared_ptr<Communicator> communicator)
    : work_(std::move(work)), communicator_(std::move(communicator)) {
    communicator_->begin_transfer();
}

Operation::~Operation() {
    communicator_->end_transfer();
}

// The operation has a stream of its own: NCCL keeps the order of launches across streams, and each stream has an event
// that tells when its operation is done.
bool Operation::ready() {
    device::Result result = device::Stream::acquire(communicator_->context(), device_stream_);
    if (result == 0)
        result = progress::wait_for_program(device_stream_);
    if (result != 0)
        failure_ = "no CUDA stream for NCCL: " + device::describe(result);
    return result == 0;
}

void Operation::launch() {
    begin();
    tell_failure();
}

void Operation::begin() {
    const auto lock = communicator_->hold_handle();
    if (!communicator_->usable())
        return end(communicator_->why_unusable());
    if (!failure_.empty())
        return end(failure_);
    const device::ContextScope scope(communicator_->context());
    state_ = State::kLaunching;
    launch_next();
}

void Operation::launch_next() {
    if (std::string failure = before_launch(work_, launches_, communicator_->size(), device_stream_); !failure.empty())
        return end(std::move(failure));
    launch_returned(launch_collective(work_, launches_++, *communicator_, device_stream_));
}

// The event may be recorded only when NCCL has put the operation on the stream: only then does it mark the operation's
// end.
void Operation::launch_returned(int result) {
    if (result == ncclInProgress)
        return;
    if (result != ncclSuccess)
        return end(describe(static_cast<ncclResult_t>(result), communicator_->handle()));
    if (launches_ < launches_of(work_))
        return launch_next();
    state_ = State::kRunning;
    if (std::string failure = after_launches(work_, device_stream_); !failure.empty())
        return end(std::move(failure));
    if (const device::Result recorded = device_stream_.record(); recorded != 0)
        end(device::describe(recorded));
}

bool Operation::step() {
    if (state_ == State::kNew || state_ == State::kDone)
        return false;
    bool moved = advance();
    if (!done())
        if (std::string other = communicator_->failure_elsewhere(); !other.empty()) {
            end(std::move(other));
            moved = true;
        }
    tell_failure();
    return moved;
}

// Tells the other ranks, which wait in NCCL for this rank's part. Must not be called while the handle is held, since
// the communicator is aborted.
void Operation::tell_failure() {
    if (done() && !failure_.empty())
        communicator_->fail(failure_);
}

bool Operation::advance() {
    const auto lock = communicator_->hold_handle();
    if (!communicator_->usable()) {
        end(communicator_->why_unusable());
        return true;
    }
    const device::ContextScope scope(communicator_->context());
    // The stream is queried before NCCL's state is: when the stream has come to its end, NCCL's state shows whether the
    // operation has failed.
    bool finished = false;
    const device::Result queried = state_ == State::kRunning ? device_stream_.query(finished) : 0;
    const auto now = static_cast<ncclResult_t>(communicator_->state());
    if (state_ == State::kLaunching) {
        launch_returned(now);
        return state_ != State::kLaunching;
    }
    if (now != ncclSuccess && now != ncclInProgress)
        end(describe(now, communicator_->handle()));
    else if (queried != 0)
        end(device::describe(queried));
    else if (finished)
        end({});
    return done();
}

void Operation::end(std::string failure) {
    failure_ = std::move(failure);
    state_ = State::kDone;
}

}  // namespace swy::nccl
