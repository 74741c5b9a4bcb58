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
// Makes the window of an MPI_Win_create in a job with GPUs where its ranks can map each other's device memory
// (direct.hpp). Collective. Returns false where they cannot: then create() makes it, or MPI. `code` is MPI's, of an
// error that has been raised. Throws std::bad_alloc.
bool create_direct(const Call& call, int& code);
bool is_direct(MPI_Win win);
// Makes a one-sided call on such a window, complete when this returns. Throws std::bad_alloc.
int perform(const Call& call);
// Raises the error of an MPI_Win_shared_query on such a window: MPI's own window beneath it is one of shared memory.
int refuse_shared_query(MPI_Win win);

// What MPI_Win_get_attr tells of a window with device memory; false where MPI's own answer is right. `value` is what C
// gets: the base, or where the number is.
bool attribute(MPI_Win win, int keyval, void*& value);

// The windows to whose targets MPI cannot make every call as it is: direct ones, and dynamic ones (MPI 4.0 section
// 12.2.4) in a job with GPUs. While there is none, an origin has no address to translate.
[[gnu::visibility("hidden")]] extern std::atomic<int> special_windows;
inline bool none_special() {
    return special_windows.load(std::memory_order_relaxed) == 0;
}
int create_dynamic(MPI_Info info, MPI_Comm comm, MPI_Win* win);
// Attaches memory that is on a device, wholly or in part: MPI gets host memory in its place. Throws std::bad_alloc.
int attach(const Call& call, Real real);
int detach(MPI_Win win, const void* base);

// Replaces what a call names of device memory at its target, as long as it lives: `call.target` then says where the
// host memory is that stands for it. The constructor throws std::bad_alloc.
class Translation {
  public:
    explicit Translation(const Call& call);
    ~Translation();
    Translation(const Translation&) = delete;
    Translation& operator=(const Translation&) = delete;
    int code() const { return code_; }  // MPI's, of an error that has been raised

  private:
    int code_ = MPI_SUCCESS;
    MPI_Datatype made_ = MPI_DATATYPE_NULL;
};

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
