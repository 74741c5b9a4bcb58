#include "nccl/point_to_point.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "nccl/launch.hpp"
#include "nccl/library.hpp"
#include "progress/wait.hpp"
#include "report/trace.hpp"

namespace swy::nccl {
namespace {

constexpr const char* kAborted = "its NCCL communicator was aborted after an error";

}  // namespace

PointToPoint::PointToPoint(Members members, Kind kind, std::vector<Piece> pieces)
    : members_(std::move(members)), kind_(kind), pieces_(std::move(pieces)) {
    for (const auto& member : members_)
        member->begin_transfer();
}

PointToPoint::~PointToPoint() {
    for (const auto& member : members_)
        member->end_transfer();
}

void PointToPoint::end(std::string failure) {
    failure_ = std::move(failure);
    state_ = State::kDone;
}

bool PointToPoint::usable() const {
    return std::all_of(members_.begin(), members_.end(), [](const auto& member) { return member->usable(); });
}

// Tells whether the piece is the first of its member: what is done once for each stream is done there.
bool PointToPoint::first_of_member(std::size_t piece) const {
    return piece == 0 || pieces_[piece].member != pieces_[piece - 1].member;
}

std::string PointToPoint::prepare(bool own_stream) {
    if (own_stream)
        if (const device::Result got = device::Stream::acquire(members_.front()->context(), own_); got != 0)
            return fmt::format("no CUDA stream for NCCL: {}", device::describe(got));
    if (kind_ == Kind::kGreeting)
        return {};  // a greeting uses none of the program's memory
    for (std::size_t i = 0; i < pieces_.size(); ++i)
        if (first_of_member(i))
            if (const device::Result waited = progress::wait_for_program(device_stream(pieces_[i].member)); waited != 0)
                return fmt::format("waiting for the program's streams: {}", device::describe(waited));
    return {};
}

int PointToPoint::call(const Piece& piece) {
    const Entries& nccl = *load();
    const Communicator& member = *members_[piece.member];
    const device::ContextScope scope(member.context());
    ncclComm_t comm = member.handle();
    cudaStream_t stream = device_stream(piece.member).stream();
    if (kind_ == Kind::kGreeting) {
        const ncclResult_t sent = nccl.Send(nullptr, 0, ncclInt8, piece.peer, comm, stream);
        const ncclResult_t received = nccl.Recv(nullptr, 0, ncclInt8, piece.peer, comm, stream);
        return sent != ncclSuccess && sent != ncclInProgress ? sent : received;
    }
    const report::trace::Started started;
    if (report::trace::on)
        device_stream(piece.member).launched(kind_ == Kind::kSend ? "ncclSend" : "ncclRecv", piece.bytes, started.time);
    return kind_ == Kind::kSend ? nccl.Send(piece.data, piece.bytes, ncclInt8, piece.peer, comm, stream)
                                : nccl.Recv(piece.data, piece.bytes, ncclInt8, piece.peer, comm, stream);
}

int PointToPoint::call() {
    const std::scoped_lock lock(launch_mutex);
    if (pieces_.size() == 1 && kind_ != Kind::kGreeting)
        return call(pieces_.front());
    GroupCall group(*load());
    for (const Piece& piece : pieces_)
        group.add(static_cast<ncclResult_t>(call(piece)));
    return group.end();
}

void PointToPoint::launch(bool own_stream) {
    const auto lock = members_.front()->hold_handle();
    if (!usable()) {
        end(kAborted);
        return;
    }
    const device::ContextScope scope(members_.front()->context());
    if (std::string failure = prepare(own_stream); !failure.empty()) {
        end(std::move(failure));
        return;
    }
    state_ = State::kLaunching;
    int result = call();
    std::size_t member = 0;
    if (result == ncclSuccess && members_.size() > 1)
        result = state_of(members_, member);
    launch_returned(result, member);
}

// The event may be recorded only when NCCL has put the operation on the stream: only then does it mark the operation's
// end.
void PointToPoint::launch_returned(int result, std::size_t member) {
    if (result == ncclInProgress)
        return;
    if (result != ncclSuccess) {
        end(describe(static_cast<ncclResult_t>(result), members_[member]->handle()));
        return;
    }
    state_ = State::kRunning;
    for (std::size_t i = 0; i < pieces_.size(); ++i) {
        if (!first_of_member(i))
            continue;
        const device::ContextScope scope(members_[pieces_[i].member]->context());
        if (const device::Result recorded = device_stream(pieces_[i].member).record(); recorded != 0)
            return end(device::describe(recorded));
    }
}

bool PointToPoint::finished(device::Result& failed) {
    for (std::size_t i = 0; i < pieces_.size(); ++i) {
        if (!first_of_member(i))
            continue;
        bool finished = false;
        failed = device_stream(pieces_[i].member).query(finished);
        if (failed != 0 || !finished)
            return false;
    }
    return true;
}

bool PointToPoint::step() {
    if (state_ == State::kNew || state_ == State::kDone)
        return false;
    const auto lock = members_.front()->hold_handle();
    if (!usable()) {
        end(kAborted);
        return true;
    }
    std::size_t member = 0;
    if (state_ == State::kLaunching) {
        launch_returned(state_of(members_, member), member);
        return state_ != State::kLaunching;
    }
    // The streams are queried before NCCL's state is: when they have come to their end, NCCL's state shows whether the
    // operation has failed.
    device::Result failed = 0;
    const bool over = finished(failed);
    const int now = state_of(members_, member);
    if (now != ncclSuccess && now != ncclInProgress)
        end(describe(static_cast<ncclResult_t>(now), members_[member]->handle()));
    else if (failed != 0)
        end(device::describe(failed));
    else if (over)
        end({});
    return done();
}

}  // namespace swy::nccl
