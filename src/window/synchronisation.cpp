// The calls that synchronise windows: after the real call, the calls that it has completed at the origin are completed
// on the devices (MPI 4.0 sections 12.5 and 12.7).
#include <new>
#include <utility>

#include "call/depth.hpp"
#include "error/error.hpp"
#include "real.hpp"
#include "window/state.hpp"
#include "window/window.hpp"

namespace swy::window {
namespace {

// Makes the real call, which completes at the origin what has been begun to `target`.
template <typename Real>
int completing(MPI_Win win, int target, Real real) {
    const call::Inside guard;
    const std::shared_ptr<State> state = find(win);
    const std::uint64_t last = state != nullptr ? state->pending.last() : 0;
    const int code = real();
    if (state == nullptr || code != MPI_SUCCESS)
        return code;
    const staging::Failure failure = state->pending.complete(target, last);
    return failure ? error::raise(Owner(win), failure.mpi_class, failure.text) : code;
}

}  // namespace

int fence(int assertion, MPI_Win win) {
    return completing(win, kAllTargets, [&] { return real::Win_fence(assertion, win); });
}

int complete(MPI_Win win) {
    return completing(win, kAllTargets, [&] { return real::Win_complete(win); });
}

int unlock(int rank, MPI_Win win) {
    return completing(win, rank, [&] { return real::Win_unlock(rank, win); });
}

int unlock_all(MPI_Win win) {
    return completing(win, kAllTargets, [&] { return real::Win_unlock_all(win); });
}

int flush(int rank, MPI_Win win) {
    return completing(win, rank, [&] { return real::Win_flush(rank, win); });
}

int flush_all(MPI_Win win) {
    return completing(win, kAllTargets, [&] { return real::Win_flush_all(win); });
}

int flush_local(int rank, MPI_Win win) {
    return completing(win, rank, [&] { return real::Win_flush_local(rank, win); });
}

int flush_local_all(MPI_Win win) {
    return completing(win, kAllTargets, [&] { return real::Win_flush_local_all(win); });
}

int free(MPI_Win* win) {
    const call::Inside guard;
    const MPI_Win handle = *win;
    std::shared_ptr<State> state = remove(handle);  // MPI may give the handle to another thread's window
    const int code = real::Win_free(win);
    if (code != MPI_SUCCESS && state != nullptr)
        add(handle, std::move(state));
    return code;
}

}  // namespace swy::window
