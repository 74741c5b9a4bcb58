#include "comm/merged.hpp"

#include "call/job.hpp"
#include "comm/world.hpp"
#include "real.hpp"

namespace swy::comm {

int merge(State& state) {
    const bool first =
        group_in_world(state.handle, Group::kOwn).front() < group_in_world(state.handle, Group::kRemote).front();
    if (const int rc = real::Intercomm_merge(state.handle, first ? 0 : 1, &state.merged); rc != MPI_SUCCESS)
        return rc;
    ++call::merged_communicators;
    if (State* both = of(state.merged); both != nullptr)
        both->between = state.handle;
    return real::Comm_set_errhandler(state.merged, MPI_ERRORS_RETURN);
}

// An agreement that was given up is still under way in MPI, which keeps the communicator then.
void end_merged(State& state) {
    if (state.merged == MPI_COMM_NULL)
        return;
    --call::merged_communicators;
    const State* both = known(state.merged);
    if (both == nullptr || !both->given_up)
        real::Comm_free(&state.merged);
}

}  // namespace swy::comm
