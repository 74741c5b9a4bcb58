// One-sided calls on host memory.
#include "progress.hpp"

namespace progress_test {
namespace {

constexpr MPI_Aint kBytes = 64 * sizeof(int);

// MPI_Win_create is not to be had everywhere: Open MPI 4.1 needs process_vm_readv for it.
void create_over(Scene& s) {
    MPI_Comm_set_errhandler(s.comm, MPI_ERRORS_RETURN);
    if (MPI_Win_create(s.in.data(), kBytes, sizeof(int), MPI_INFO_NULL, s.comm, &s.win) != MPI_SUCCESS)
        s.win = MPI_WIN_NULL;
    MPI_Comm_set_errhandler(s.comm, MPI_ERRORS_ARE_FATAL);
}
void create(Scene& s) {
    void* base;
    MPI_Win_allocate(kBytes, sizeof(int), MPI_INFO_NULL, s.comm, &base, &s.win);
}
void free_win(Scene& s) {
    if (s.win != MPI_WIN_NULL)
        MPI_Win_free(&s.win);
}
void create_and_fence(Scene& s) {
    create(s);
    MPI_Win_fence(0, s.win);
}

// The other rank's group for the waiter, and the waiter's for the other.
MPI_Group peer(Scene& s) {
    MPI_Group all, one;
    const int rank = s.waits() ? s.other : s.waiter;
    MPI_Comm_group(s.comm, &all);
    MPI_Group_incl(all, 1, &rank, &one);
    MPI_Group_free(&all);
    return one;
}

void put_and_fence(Scene& s) {
    if (s.waits())
        MPI_Put(s.out.data(), 8, MPI_INT, s.other, 0, 8, MPI_INT, s.win);
    MPI_Win_fence(0, s.win);
}
void lock_put_unlock(Scene& s) {
    if (s.waits()) {
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, s.other, 0, s.win);
        MPI_Put(s.out.data(), 8, MPI_INT, s.other, 0, 8, MPI_INT, s.win);
        MPI_Win_unlock(s.other, s.win);
    }
    MPI_Barrier(s.comm);
}
void lock_all_get_flush(Scene& s) {
    if (s.waits()) {
        MPI_Win_lock_all(0, s.win);
        MPI_Get(s.out.data(), 8, MPI_INT, s.other, 0, 8, MPI_INT, s.win);
        MPI_Win_flush(s.other, s.win);
        MPI_Win_unlock_all(s.win);
    }
    MPI_Barrier(s.comm);
}
void start_complete(Scene& s) {
    if (!s.waits() && !s.is_other())
        return;
    MPI_Group group = peer(s);
    if (s.waits()) {
        MPI_Win_start(group, 0, s.win);
        MPI_Put(s.out.data(), 8, MPI_INT, s.other, 0, 8, MPI_INT, s.win);
        MPI_Win_complete(s.win);
    } else {
        MPI_Win_post(group, 0, s.win);
        MPI_Win_wait(s.win);
    }
    MPI_Group_free(&group);
}
void post_wait(Scene& s) {
    if (!s.waits() && !s.is_other())
        return;
    MPI_Group group = peer(s);
    if (s.waits()) {
        MPI_Win_post(group, 0, s.win);
        MPI_Win_wait(s.win);
    } else {
        MPI_Win_start(group, 0, s.win);
        MPI_Put(s.out.data(), 8, MPI_INT, s.waiter, 0, 8, MPI_INT, s.win);
        MPI_Win_complete(s.win);
    }
    MPI_Group_free(&group);
}

const Row kRows[] = {
    {"Win_create", create_over, nullptr, free_win, false},
    {"Win_allocate", create, nullptr, free_win, false},
    {"Win_allocate_shared",
     [](Scene& s) {
         void* base;
         MPI_Win_allocate_shared(kBytes, sizeof(int), MPI_INFO_NULL, s.comm, &base, &s.win);
     },
     nullptr, free_win, false},
    {"Win_fence", [](Scene& s) { MPI_Win_fence(0, s.win); }, create, free_win, false},
    {"Put and Win_fence", put_and_fence, create_and_fence, free_win, false},
    {"Win_lock, Put and Win_unlock", lock_put_unlock, create, free_win, false},
    {"Win_lock_all, Get and Win_flush", lock_all_get_flush, create, free_win, false},
    {"Win_start and Win_complete", start_complete, create, free_win, false},
    {"Win_post and Win_wait", post_wait, create, free_win, false},
    {"Win_free", free_win, create, nullptr, false},
};

}  // namespace

std::span<const Row> window_rows() {
    return kRows;
}

}  // namespace progress_test
