// The wrappers of the calls that synchronise windows, and of those that ask about them, written by hand: their work is
// on the buffers of other calls. A program without device memory in one-sided calls pays for one comparison; in a job
// with GPUs, making a dynamic window makes two small windows with it.
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

extern "C" SWY_EXPORT int MPI_Win_post(MPI_Group group, int assert, MPI_Win win) {
    return window::none_known() ? real::Win_post(group, assert, win) : window::post(group, assert, win);
}
SWY_PAIR(MPI_Win_post)

extern "C" SWY_EXPORT int MPI_Win_wait(MPI_Win win) {
    return window::none_known() ? real::Win_wait(win) : window::wait(win);
}
SWY_PAIR(MPI_Win_wait)

extern "C" SWY_EXPORT int MPI_Win_test(MPI_Win win, int* flag) {
    return window::none_known() ? real::Win_test(win, flag) : window::test(win, flag);
}
SWY_PAIR(MPI_Win_test)

extern "C" SWY_EXPORT int MPI_Win_lock(int lock_type, int rank, int assert, MPI_Win win) {
    return window::none_known() ? real::Win_lock(lock_type, rank, assert, win)
                                : window::lock(lock_type, rank, assert, win);
}
SWY_PAIR(MPI_Win_lock)

extern "C" SWY_EXPORT int MPI_Win_lock_all(int assert, MPI_Win win) {
    return window::none_known() ? real::Win_lock_all(assert, win) : window::lock_all(assert, win);
}
SWY_PAIR(MPI_Win_lock_all)

extern "C" SWY_EXPORT int MPI_Win_unlock(int rank, MPI_Win win) {
    return window::none_known() ? real::Win_unlock(rank, win) : window::unlock(rank, win);
}
SWY_PAIR(MPI_Win_unlock)

extern "C" SWY_EXPORT int MPI_Win_unlock_all(MPI_Win win) {
    return window::none_known() ? real::Win_unlock_all(win) : window::unlock_all(win);
}
SWY_PAIR(MPI_Win_unlock_all)

extern "C" SWY_EXPORT int MPI_Win_sync(MPI_Win win) {
    return window::none_known() ? real::Win_sync(win) : window::sync(win);
}
SWY_PAIR(MPI_Win_sync)

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

extern "C" SWY_EXPORT int MPI_Win_create_dynamic(MPI_Info info, MPI_Comm comm, MPI_Win* win) {
    return call::job_agrees ? window::create_dynamic(info, comm, win) : real::Win_create_dynamic(info, comm, win);
}
SWY_PAIR(MPI_Win_create_dynamic)

extern "C" SWY_EXPORT int MPI_Win_detach(MPI_Win win, const void* base) {
    const bool host = window::none_special() && !device::on_device(base);
    return host || win == MPI_WIN_NULL ? real::Win_detach(win, base) : window::detach(win, base);
}
SWY_PAIR(MPI_Win_detach)

extern "C" SWY_EXPORT int MPI_Win_shared_query(MPI_Win win, int rank, MPI_Aint* size, int* disp_unit, void* baseptr) {
    return window::is_direct(win) ? window::refuse_shared_query(win)
                                  : real::Win_shared_query(win, rank, size, disp_unit, baseptr);
}
SWY_PAIR(MPI_Win_shared_query)

extern "C" SWY_EXPORT int MPI_Win_get_attr(MPI_Win win, int win_keyval, void* attribute_val, int* flag) {
    const int code = real::Win_get_attr(win, win_keyval, attribute_val, flag);
    if (window::none_known() || code != MPI_SUCCESS || *flag == 0)
        return code;
    if (void* value = nullptr; window::attribute(win, win_keyval, value))
        *static_cast<void**>(attribute_val) = value;
    return code;
}
SWY_PAIR(MPI_Win_get_attr)
