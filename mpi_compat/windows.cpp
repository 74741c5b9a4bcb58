// The wrappers of the calls that synchronise windows, written by hand: their work is on the buffers of other calls. A
// program without device memory in one-sided calls pays for one comparison.
#include "window/window.hpp"

#include "mpi_compat/wrapper.hpp"

using namespace swy;

extern "C" SWY_EXPORT int MPI_Win_fence(int assert, MPI_Win win) {
    return window::none_known() ? real::Win_fence(assert, win) : window::fence(assert, win);
}
SWY_PAIR(MPI_Win_fence)

extern "C" SWY_EXPORT int MPI_Win_complete(MPI_Win win) {
    return window::none_known() ? real::Win_complete(win) : window::complete(win);
}
SWY_PAIR(MPI_Win_complete)

extern "C" SWY_EXPORT int MPI_Win_unlock(int rank, MPI_Win win) {
    return window::none_known() ? real::Win_unlock(rank, win) : window::unlock(rank, win);
}
SWY_PAIR(MPI_Win_unlock)

extern "C" SWY_EXPORT int MPI_Win_unlock_all(MPI_Win win) {
    return window::none_known() ? real::Win_unlock_all(win) : window::unlock_all(win);
}
SWY_PAIR(MPI_Win_unlock_all)

extern "C" SWY_EXPORT int MPI_Win_flush(int rank, MPI_Win win) {
    return window::none_known() ? real::Win_flush(rank, win) : window::flush(rank, win);
}
SWY_PAIR(MPI_Win_flush)

extern "C" SWY_EXPORT int MPI_Win_flush_all(MPI_Win win) {
    return window::none_known() ? real::Win_flush_all(win) : window::flush_all(win);
}
SWY_PAIR(MPI_Win_flush_all)

extern "C" SWY_EXPORT int MPI_Win_flush_local(int rank, MPI_Win win) {
    return window::none_known() ? real::Win_flush_local(rank, win) : window::flush_local(rank, win);
}
SWY_PAIR(MPI_Win_flush_local)

extern "C" SWY_EXPORT int MPI_Win_flush_local_all(MPI_Win win) {
    return window::none_known() ? real::Win_flush_local_all(win) : window::flush_local_all(win);
}
SWY_PAIR(MPI_Win_flush_local_all)

extern "C" SWY_EXPORT int MPI_Win_free(MPI_Win* win) {
    return window::none_known() ? real::Win_free(win) : window::free(win);
}
SWY_PAIR(MPI_Win_free)
