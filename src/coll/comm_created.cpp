#include "coll/comm_created.hpp"

#include "call/depth.hpp"
#include "call/job.hpp"
#include "comm/launch_order.hpp"
#include "comm/setup.hpp"
#include "comm/state.hpp"
#include "real.hpp"
#include "settings/settings.hpp"

namespace swy::coll {
namespace {

int make_at_once(comm::State& state) {
    const device::Location location = device::current_device();
    const int mine = location.ordinal < 0 ? 1 : 0;
    int any = 0;  // some rank has no device
    int rc = real::Allreduce(&mine, &any, 1, MPI_INT, MPI_MAX, state.handle);
    if (rc != MPI_SUCCESS || any != 0)
        return rc;
    rc = comm::set_up(state, location);
    return rc == MPI_SUCCESS && state.nccl != nullptr ? comm::LaunchOrder::make(state) : rc;
}

}  // namespace

int make_eagerly(MPI_Comm comm) {
    comm::State* state = call::job_agrees && settings::values().nccl ? comm::of(comm) : nullptr;
    const bool none = state == nullptr || state->inter || state->spans_jobs || state->size == 1;
    return none ? MPI_SUCCESS : make_at_once(*state);
}

void duplicates(MPI_Comm comm) {
    if (!call::job_agrees || comm == MPI_COMM_NULL)
        return;
    if (comm::State* state = comm::of(comm); state != nullptr)
        state->duplicated = true;
}

int on_comm_created(MPI_Comm made) {
    if (!settings::values().eager || made == MPI_COMM_NULL || call::inside() || !call::job_agrees)
        return MPI_SUCCESS;
    const call::Inside guard;
    return make_eagerly(made);
}

}  // namespace swy::coll
