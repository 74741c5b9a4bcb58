#include "carrier/nccl/flight.hpp"

#include <utility>

#include "carrier/nccl/launch.hpp"
#include "carrier/nccl/library.hpp"
#include "settings/settings.hpp"

namespace swy::carrier::nccl {

Flight::Flight(Work work, std::shared_ptr<Communicator> communicator)
    : work_(std::move(work)), communicator_(std::move(communicator)) {
    communicator_->begin_transfer();
}

Flight::~Flight() {
    communicator_->end_transfer();
}

// On a stream of its own: NCCL keeps the order of launches across streams, and each has an event to ask for its end.
bool Flight::ready() {
    device::Result result = device::Lane::acquire(communicator_->context(), lane_);
    if (result == 0)
        result = lane_.wait_for_program(static_cast<device::Sync>(settings::values().sync));
    if (result != 0)
        failure_ = "no CUDA stream for NCCL: " + device::describe(result);
    return result == 0;
}

void Flight::launch() {
    begin();
    tell_failure();
}

void Flight::begin() {
    const auto lock = communicator_->hold_handle();
    if (!communicator_->usable())
        return end(communicator_->why_unusable());
    if (!failure_.empty())
        return end(failure_);
    const device::ContextScope scope(communicator_->context());
    state_ = State::kLaunching;
    launch_next();
}

void Flight::launch_next() {
    if (std::string failure = before_launch(work_, launches_, communicator_->size(), lane_); !failure.empty())
        return end(std::move(failure));
    settle(launch_collective(work_, launches_++, *communicator_, lane_));
}

// The event marks the end of the operation only when NCCL has put it on the stream.
void Flight::settle(int result) {
    if (result == ncclInProgress)
        return;
    if (result != ncclSuccess)
        return end(describe(static_cast<ncclResult_t>(result), communicator_->handle()));
    if (launches_ < launches_of(work_))
        return launch_next();
    state_ = State::kRunning;
    if (std::string failure = after_launches(work_, lane_); !failure.empty())
        return end(std::move(failure));
    if (const device::Result recorded = lane_.record(); recorded != 0)
        end(device::describe(recorded));
}

bool Flight::step() {
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

// The other ranks wait in NCCL for this one's part. Not while the handle is held: the communicator is aborted.
void Flight::tell_failure() {
    if (done() && !failure_.empty())
        communicator_->fail(failure_);
}

bool Flight::advance() {
    const auto lock = communicator_->hold_handle();
    if (!communicator_->usable()) {
        end(communicator_->why_unusable());
        return true;
    }
    const device::ContextScope scope(communicator_->context());
    ncclResult_t now = ncclSuccess;
    if (const ncclResult_t asked = load()->CommGetAsyncError(communicator_->handle(), &now); asked != ncclSuccess)
        now = asked;
    if (state_ == State::kLaunching) {
        settle(now);
        return state_ != State::kLaunching;
    }
    bool finished = false;
    if (const device::Result queried = lane_.query(finished); queried != 0)
        end(device::describe(queried));
    else if (finished)
        end({});
    else if (now != ncclSuccess && now != ncclInProgress)
        end(describe(now, communicator_->handle()));
    return done();
}

void Flight::end(std::string failure) {
    failure_ = std::move(failure);
    state_ = State::kDone;
}

}  // namespace swy::carrier::nccl
