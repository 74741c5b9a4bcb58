#include "comm/losses.hpp"

#include <algorithm>
#include <set>

#include "comm/job_messages.hpp"
#include "comm/state.hpp"
#include "error/loss.hpp"
#include "progress/engine.hpp"

namespace swy::comm {
namespace {

std::set<int> lost;  // of MPI_COMM_WORLD
LossHandler handle_loss = nullptr;

// The failures that MPI has heard of since the last time. Receives from any rank fail until they are acknowledged
// (ULFM: MPIX_ERR_PROC_FAILED_PENDING), and messages between ranks that Switchyard makes need them.
bool find_lost() {
    const std::vector<int> failed = error::failed_ranks(control_communicator());
    if (failed.size() == lost.size())
        return false;
    lost.insert(failed.begin(), failed.end());
    error::acknowledge_failures(control_communicator());
    return true;
}

// Who revokes a communicator knows nothing of the private ones that go with it: every rank that learns of it revokes
// them, and MPI ends what waits there.
bool look() {
    constexpr unsigned kSeldom = 64;
    static unsigned turns = 0;
    if (++turns % kSeldom != 0 || control_communicator() == MPI_COMM_NULL)
        return false;
    const bool revoked = revoke_private_comms();
    const bool failed = find_lost();
    if ((revoked || failed) && handle_loss != nullptr)
        handle_loss();
    return revoked || failed;
}

}  // namespace

bool is_lost(int world_rank) {
    return lost.count(world_rank) != 0;
}

int first_lost(const std::vector<int>& world) {
    const auto found = std::find_if(world.begin(), world.end(), is_lost);
    return lost.empty() || found == world.end() ? -1 : static_cast<int>(found - world.begin());
}

bool all_hear_of_it(const std::vector<int>& world) {
    if (!error::survives)
        return false;
    const std::vector<int> failed = error::failed_ranks(control_communicator());
    return std::find_first_of(world.begin(), world.end(), failed.begin(), failed.end()) != world.end();
}

void start_losses(LossHandler handler) {
    if (!error::survives)
        return;
    handle_loss = handler;
    progress::add_service(look);
}

void stop_losses() {
    handle_loss = nullptr;
}

}  // namespace swy::comm
