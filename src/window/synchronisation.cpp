// The calls that synchronise windows. Before the real call, what the program has changed in a window's device memory
// goes to its mirror, where others are to see it; after the call, the calls that it has completed at the origin are
// completed on the devices, and what others have changed in the mirror goes to the device. When which is due, MPI 4.0
// section 12.7 says, rules 5 and 6 (docs/one-sided.md).
#include <string>
#include <utility>

#include "call/depth.hpp"
#include "comm/where.hpp"
#include "error/error.hpp"
#include "real.hpp"
#include "window/state.hpp"
#include "window/window.hpp"

namespace swy::window {
namespace {

// What a call does to the mirrors of this process's window.
struct Copies {
    bool publish = false, update = false;
};

staging::Failure on_mirrors(const State& state, staging::Failure (*work)(Mirror::All)) {
    const std::shared_ptr<const Mirrors> mirrors = state.mirrors();
    return work(*mirrors);
}

// Makes the real call, which completes at the origin what has been begun to `target`.
template <typename Real>
int synchronise(CallId call, MPI_Win win, int target, Copies copies, Real real) {
    const call::Inside guard;
    const std::shared_ptr<State> state = find(win);
    if (state == nullptr)
        return real();
    staging::Failure failure;
    if (copies.publish)
        failure = state->direct != nullptr ? state->direct->await_program() : on_mirrors(*state, Mirror::publish);
    const std::uint64_t last = state->pending.last();
    const int code = real();  // after a failure too: others wait for it
    if (code != MPI_SUCCESS)
        return code;
    if (staging::Failure missing = state->pending.complete(target, last); !failure)
        failure = std::move(missing);
    if (copies.update)
        if (staging::Failure stale = on_mirrors(*state, Mirror::update); !failure)
            failure = std::move(stale);
    if (!failure)
        return code;
    if (failure.where.empty())
        failure.where = comm::where(call, Owner(win));
    return error::raise(Owner(win), failure.mpi_class, failure.text());
}

// Tells whether others may have changed the window since the last call that exposed it, and notes what this one's
// assertion says of the time to the next.
bool may_be_changed(MPI_Win win, int assertion) {
    const std::shared_ptr<State> state = find(win);
    return state == nullptr || !state->nothing_put.exchange((assertion & MPI_MODE_NOPUT) != 0);
}

bool may_be_stored_to(int assertion) {
    return (assertion & MPI_MODE_NOSTORE) == 0;
}

}  // namespace

int fence(int assertion, MPI_Win win) {
    const Copies copies{.publish = may_be_stored_to(assertion), .update = may_be_changed(win, assertion)};
    return synchronise(CallId::kWinFence, win, kAllTargets, copies, [&] { return real::Win_fence(assertion, win); });
}

int complete(MPI_Win win) {
    return synchronise(CallId::kWinComplete, win, kAllTargets, {}, [&] { return real::Win_complete(win); });
}

int post(MPI_Group group, int assertion, MPI_Win win) {
    // What has been changed before is not looked for again where nothing is changed until MPI_Win_wait.
    const bool update = may_be_changed(win, assertion) && (assertion & MPI_MODE_NOPUT) != 0;
    return synchronise(CallId::kWinPost, win, kNoTarget, {.publish = may_be_stored_to(assertion), .update = update},
                       [&] { return real::Win_post(group, assertion, win); });
}

int wait(MPI_Win win) {
    return synchronise(CallId::kWinWait, win, kNoTarget, {.update = may_be_changed(win, 0)},
                       [&] { return real::Win_wait(win); });
}

int test(MPI_Win win, int* flag) {
    const int code = real::Win_test(win, flag);
    if (code != MPI_SUCCESS || *flag == 0)
        return code;
    return synchronise(CallId::kWinTest, win, kNoTarget, {.update = may_be_changed(win, 0)},
                       [] { return MPI_SUCCESS; });
}

int lock(int type, int rank, int assertion, MPI_Win win) {
    may_be_changed(win, 0);
    return synchronise(CallId::kWinLock, win, kNoTarget, {.update = true},
                       [&] { return real::Win_lock(type, rank, assertion, win); });
}

int lock_all(int assertion, MPI_Win win) {
    may_be_changed(win, 0);
    return synchronise(CallId::kWinLockAll, win, kNoTarget, {.update = true},
                       [&] { return real::Win_lock_all(assertion, win); });
}

int unlock(int rank, MPI_Win win) {
    return synchronise(CallId::kWinUnlock, win, rank, {.publish = true}, [&] { return real::Win_unlock(rank, win); });
}

int unlock_all(MPI_Win win) {
    return synchronise(CallId::kWinUnlockAll, win, kAllTargets, {.publish = true},
                       [&] { return real::Win_unlock_all(win); });
}

int sync(MPI_Win win) {
    return synchronise(CallId::kWinSync, win, kNoTarget, {.publish = true, .update = true},
                       [&] { return real::Win_sync(win); });
}

int flush(int rank, MPI_Win win) {
    return synchronise(CallId::kWinFlush, win, rank, {}, [&] { return real::Win_flush(rank, win); });
}

int flush_all(MPI_Win win) {
    return synchronise(CallId::kWinFlushAll, win, kAllTargets, {}, [&] { return real::Win_flush_all(win); });
}

int flush_local(int rank, MPI_Win win) {
    return synchronise(CallId::kWinFlushLocal, win, rank, {}, [&] { return real::Win_flush_local(rank, win); });
}

int flush_local_all(MPI_Win win) {
    return synchronise(CallId::kWinFlushLocalAll, win, kAllTargets, {}, [&] { return real::Win_flush_local_all(win); });
}

// MPI_Win_free waits for all ranks, so the mirror has everything then. MPI does not ask for this copy; programs whose
// windows are one copy look for what it brings.
int free(MPI_Win* win) {
    const call::Inside guard;
    const MPI_Win handle = *win;
    std::shared_ptr<State> state = remove(handle);  // MPI may give the handle to another thread's window
    const std::string place = state != nullptr ? comm::where(CallId::kWinFree, Owner(handle)) : "";
    const int code = real::Win_free(win);
    if (state == nullptr)
        return code;
    if (code != MPI_SUCCESS) {
        add(handle, std::move(state));
        return code;
    }
    if (state->directory != nullptr)
        state->directory->close();
    if (state->direct != nullptr)
        state->direct->close();
    const staging::Failure failure = on_mirrors(*state, Mirror::update);
    return failure ? error::raise(Owner(), failure.mpi_class, place + ": " + failure.why) : code;
}

}  // namespace swy::window
