// The first line of every door: is there anything for Switchyard to do in this process? Doors ask closed(), the start
// and end of MPI call the rest.
#pragma once

#include <link.h>

#include <atomic>
#include <cstdint>

namespace swy::gate {

enum class State : std::uint8_t {
    kClosed,  // a job without GPUs, a process in which no CUDA driver is loaded and no report asked for: every call is
              // Open MPI's
    kOpen,    // a driver in this process: plain host memory passes, and there is nothing left to look for
    kExpecting,  // a job with GPUs, and no driver in this process so far: the same, but libraries are watched
    kWatched,    // a report or a trace is on: every call is looked at
};
// Hidden, as all that a door reads: the compiler then knows where it is.
[[gnu::visibility("hidden")]] extern std::atomic<State> state;

// Set by MPI_Init and by refresh(). A gate that is watched stays so.
void open();  // kExpecting until there is a driver
void watch_calls();
void close();

// A library of the process's link map; when it has a successor, something may have been loaded since it was looked at:
// perhaps a CUDA driver. Always safe to read: a constant, or the last library at the end of MPI_Init, and then one that
// cannot be unloaded before MPI_Finalize.
[[gnu::visibility("hidden")]] extern std::atomic<const link_map*> last_seen;

// Looks at the libraries when some were loaded since the last look; adopts a CUDA driver among them and opens the gate.
State refresh();

// Remembers which libraries are there before MPI's own start loads its plugins. Without this call the watch is right
// but may cost more.
void before_init();

// Starts to look, at the end of MPI_Init or MPI_Session_init, or looks afresh; adopts a driver that is loaded already.
void watch();

// Stops looking, before MPI goes down.
void unwatch();

inline bool changed() {
    return __atomic_load_n(&last_seen.load(std::memory_order_acquire)->l_next, __ATOMIC_RELAXED) != nullptr;
}

// For doors, which need not know kExpecting from kOpen. Without a call of any function: kWatched where that does not
// tell.
inline State surely() {
    const State now = state.load(std::memory_order_acquire);
    if (now == State::kClosed) [[likely]]
        return changed() ? State::kWatched : State::kClosed;
    if (now == State::kOpen) [[likely]]
        return State::kOpen;
    return now == State::kExpecting && !changed() ? State::kOpen : State::kWatched;
}
inline State look() {
    const State now = changed() ? refresh() : state.load(std::memory_order_relaxed);
    return now == State::kExpecting ? State::kOpen : now;
}
inline bool closed() {
    if (state.load(std::memory_order_relaxed) != State::kClosed) [[unlikely]]
        return false;
    if (changed()) [[unlikely]]
        return refresh() == State::kClosed;
    return true;
}

}  // namespace swy::gate
