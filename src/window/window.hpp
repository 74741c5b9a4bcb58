// One-sided communication on device memory (MPI 4.0 chapter 12; docs/one-sided.md). The dispatcher and the wrappers of
// mpi_compat/windows.cpp call what is here.
#pragma once

#include <mpi.h>

#include <atomic>
#include <cstddef>

#include "call/call.hpp"
#include "call/reason.hpp"

namespace swy::window {

// How many windows have something for their synchronising calls to do. While there is none, the wrappers of those make
// the real calls.
[[gnu::visibility("hidden")]] extern std::atomic<int> known_windows;
inline bool none_known() {
    return known_windows.load(std::memory_order_relaxed) == 0;
}

// Makes a one-sided call that has data on a device, on host memory in its place: what MPI reads is copied now, and what
// it writes is copied to the device by the call that completes this one at the origin. Returns MPI's code. Throws
// std::bad_alloc.
int stage(const Call& call, Real real);
// The same for a call that leaves a request, which completes when the result is on the device.
int begin(const Call& call, Real real, Reason reason, std::size_t bytes);

// Makes a window over memory that is on a device, wholly or in part: MPI gets host memory in its place. Throws
// std::bad_alloc.
int create(const Call& call, Real real);
// Corrects what MPI says of an attribute of such a window, in the C form.
void show_attribute(MPI_Win win, int key, void* value);

// The calls that synchronise a window.
int fence(int assertion, MPI_Win win);
int complete(MPI_Win win);
int post(MPI_Group group, int assertion, MPI_Win win);
int wait(MPI_Win win);
int test(MPI_Win win, int* flag);
int lock(int type, int rank, int assertion, MPI_Win win);
int lock_all(int assertion, MPI_Win win);
int unlock(int rank, MPI_Win win);
int unlock_all(MPI_Win win);
int sync(MPI_Win win);
int flush(int rank, MPI_Win win);
int flush_all(MPI_Win win);
int flush_local(int rank, MPI_Win win);
int flush_local_all(MPI_Win win);
int free(MPI_Win* win);

}  // namespace swy::window
