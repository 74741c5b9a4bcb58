#include "comm/launch_tokens.hpp"

#include <memory>
#include <utility>

#include "comm/world.hpp"
#include "progress/engine.hpp"
#include "progress/keep_until.hpp"
#include "progress/wait.hpp"
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
    const auto sent = std::make_shared<Launch>(token);
    MPI_Request request = MPI_REQUEST_NULL;
    if (real::Isend(sent.get(), sizeof *sent, MPI_BYTE, after_, kTag, private_comm_, &request) == MPI_SUCCESS &&
        !progress::see_off(request, private_comm_))
        progress::keep_until(request, sent);
}

}  // namespace swy::comm
