#include "coll/comm_created.hpp"

#include "call/depth.hpp"
#include "call/job.hpp"
#include "comm/collective_setup.hpp"
#include "comm/launch_order.hpp"
#include "comm/merged.hpp"
#include "comm/state.hpp"
#include "fastpath/collective.hpp"
#include "nccl/library.hpp"
#include "progress/engine.hpp"
#include "real.hpp"
#include "settings/settings.hpp"

namespace swy::coll {
namespace {

// Does what takes long once in a process: loads NCCL, and where the program has a context already, makes the library's
// stream, page-locked memory and kernels in it. The first large collective need not wait for that, whether the
// communicator itself can be made now or not. What fails here is tried again when it is needed.
void warm_up(const device::Location& location) {
    nccl::load();
    if (location.ordinal < 0)
        return;
    device::Stream stream;
    device::Pinned memory;
    if (device::Stream::acquire(location.context, stream) == 0)
        static_cast<void>(device::Pinned::acquire(location.context, 0, memory));
}

int make_nccl(comm::State& state) {
    const device::Location location = device::current_device();
    warm_up(location);
    const int mine = location.ordinal < 0 ? 1 : 0;
    int any = 0;  // some rank has no device
    int rc = real::Allreduce(&mine, &any, 1, MPI_INT, MPI_MAX, state.handle);
    if (rc != MPI_SUCCESS || any != 0)
        return rc;
    return comm::set_up(state, location, 0);
}

}  // namespace

int prepare(MPI_Comm comm) {
    comm::State* state = call::job_agrees ? comm::of(comm) : nullptr;
    if (state == nullptr || state->spans_jobs)
        return MPI_SUCCESS;
    if (settings::values().nccl == settings::Nccl::kNo) {
        bool all = true;
        return state->inter ? MPI_SUCCESS : comm::agree_on_number(*state, all);
    }
    if (state->inter) {
        const int merged = comm::merge(*state);
        fastpath::forget_small_counts();
        return merged != MPI_SUCCESS ? merged : prepare(state->merged);
    }
    if (state->size == 1)
        return MPI_SUCCESS;
    const int rc = progress::engine_runs() ? comm::LaunchOrder::make(*state) : MPI_SUCCESS;
    return rc == MPI_SUCCESS && settings::values().eager ? make_nccl(*state) : rc;
}

void duplicates(MPI_Comm comm) {
    if (!call::job_agrees || comm == MPI_COMM_NULL)
        return;
    comm::State* state = comm::of(comm);
    if (state == nullptr)
        return;
    state->duplicated = true;
    duplicates(state->merged);
}

int on_comm_created(MPI_Comm made) {
    if (made == MPI_COMM_NULL || call::inside() || !call::job_agrees)
        return MPI_SUCCESS;
    const call::Inside guard;
    return prepare(made);
}

}  // namespace swy::coll
