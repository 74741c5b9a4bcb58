#include "comm/launch_tokens.hpp"

#include <memory>
#include <utility>

#include "comm/world.hpp"
#include "progress/engine.hpp"
#include "progress/keep_until.hpp"
#include "real.hpp"

namespace swy::comm {
namespace {

// All tokens have one tag, so that they come in the order in which they were sent.
constexpr int kTag = 1;

}  // namespace

MessageTokens::MessageTokens(State& state, MPI_Comm private_comm) : private_comm_(private_comm) {
    const int mine = world_rank(state, state.rank);
    int highest_before = -1;
    int lowest_after = -1;
    for (int rank = 0; rank < state.size; ++rank) {
        const int world = world_rank(state, rank);
        if (world < mine && world > highest_before) {
            highest_before = world;
            before_ = rank;
        }
        if (world > mine && (lowest_after < 0 || world < lowest_after)) {
            lowest_after = world;
            after_ = rank;
        }
    }
}

MessageTokens::~MessageTokens() {
    int down = 0;
    real::Finalized(&down);
    if (down)
        return;
    if (request_ != MPI_REQUEST_NULL) {
        real::Cancel(&request_);
        real::Request_free(&request_);
    }
    while (!sent_.empty() && sent_first()) {
    }
    const auto sent = std::make_shared<std::deque<Sent>>(std::move(sent_));
    for (const Sent& one : *sent)
        progress::keep_until(one.request, sent);
}

bool MessageTokens::receive(Launch& token) {
    if (request_ == MPI_REQUEST_NULL &&
        real::Irecv(&next_, sizeof next_, MPI_BYTE, before_, kTag, private_comm_, &request_) != MPI_SUCCESS)
        return false;
    int done = 0;
    if (!progress::may_poll() || real::Test(&request_, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS || !done)
        return false;
    token = next_;
    return true;
}

void MessageTokens::send(const Launch& token) {
    if (after_ == MPI_PROC_NULL)
        return;
    if (!sent_.empty())
        sent_first();
    Sent& sent = sent_.emplace_back(Sent{token});
    if (real::Isend(&sent.token, sizeof sent.token, MPI_BYTE, after_, kTag, private_comm_, &sent.request) !=
        MPI_SUCCESS)
        sent_.pop_back();
}

// Has MPI sent the oldest token? Then it is removed.
bool MessageTokens::sent_first() {
    int done = 0;
    if (real::Test(&sent_.front().request, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && done)
        sent_.pop_front();
    return done != 0;
}

}  // namespace swy::comm
