#include "carrier/nccl/point_to_point.hpp"

#include <fmt/format.h>

#include "carrier/nccl/launch.hpp"
#include "carrier/nccl/library.hpp"
#include "report/trace.hpp"
#include "settings/settings.hpp"

namespace swy::carrier::nccl {
namespace {

constexpr const char* kAborted = "its NCCL communicator was aborted after an error";

}  // namespace

PointToPoint::PointToPoint(std::shared_ptr<Communicator> communicator, Kind kind, void* data, std::size_t bytes,
                           int peer)
    : communicator_(std::move(communicator)), kind_(kind), data_(data), bytes_(bytes), peer_(peer) {
    communicator_->begin_transfer();
}

PointToPoint::~PointToPoint() {
    communicator_->end_transfer();
}

void PointToPoint::end(std::string failure) {
    failure_ = std::move(failure);
    state_ = State::kDone;
}

std::string PointToPoint::prepare(bool own_stream) {
    if (own_stream)
        if (const device::Result got = device::Lane::acquire(communicator_->context(), own_); got != 0)
            return fmt::format("no CUDA stream for NCCL: {}", device::describe(got));
    if (kind_ == Kind::kGreeting)
        return {};  // none of the program's memory is concerned
    const device::Result waited = lane().wait_for_program(static_cast<device::Sync>(settings::values().sync));
    return waited == 0 ? std::string{} : fmt::format("waiting for the program's streams: {}", device::describe(waited));
}

int PointToPoint::call() {
    const Entries& nccl = *load();
    ncclComm_t comm = communicator_->handle();
    cudaStream_t stream = lane().stream();
    const report::trace::Started started;
    if (report::trace::on && kind_ != Kind::kGreeting)
        lane().launched(kind_ == Kind::kSend ? "ncclSend" : "ncclRecv", bytes_, started.time);
    const std::scoped_lock lock(launch_mutex);
    switch (kind_) {
        case Kind::kSend:
            return nccl.Send(data_, bytes_, ncclInt8, peer_, comm, stream);
        case Kind::kReceive:
            return nccl.Recv(data_, bytes_, ncclInt8, peer_, comm, stream);
        case Kind::kGreeting:
            break;
    }
    GroupCall group(nccl);
    group.add(nccl.Send(nullptr, 0, ncclInt8, peer_, comm, stream));
    group.add(nccl.Recv(nullptr, 0, ncclInt8, peer_, comm, stream));
    return group.end();
}

void PointToPoint::launch(bool own_stream) {
    const auto lock = communicator_->hold_handle();
    if (!communicator_->usable()) {
        end(kAborted);
        return;
    }
    const device::ContextScope scope(communicator_->context());
    if (std::string failure = prepare(own_stream); !failure.empty()) {
        end(std::move(failure));
        return;
    }
    state_ = State::kLaunching;
    settle(call());
}

// The event marks the end of the operation only when NCCL has put it on the stream.
void PointToPoint::settle(int result) {
    if (result == ncclInProgress)
        return;
    if (result != ncclSuccess) {
        end(describe(static_cast<ncclResult_t>(result), communicator_->handle()));
        return;
    }
    state_ = State::kRunning;
    if (const device::Result recorded = lane().record(); recorded != 0)
        end(device::describe(recorded));
}

bool PointToPoint::step() {
    if (state_ == State::kNew || state_ == State::kDone)
        return false;
    const auto lock = communicator_->hold_handle();
    if (!communicator_->usable()) {
        end(kAborted);
        return true;
    }
    ncclResult_t now = ncclSuccess;
    if (const ncclResult_t asked = load()->CommGetAsyncError(communicator_->handle(), &now); asked != ncclSuccess)
        now = asked;
    if (state_ == State::kLaunching) {
        settle(now);
        return state_ != State::kLaunching;
    }
    bool finished = false;
    if (const device::Result queried = lane().query(finished); queried != 0)
        end(device::describe(queried));
    else if (finished)
        end({});
    else if (now != ncclSuccess && now != ncclInProgress)
        end(describe(now, communicator_->handle()));
    return done();
}

}  // namespace swy::carrier::nccl
