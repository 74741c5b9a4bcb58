// The first line of every wrapper: is there anything for Switchyard to do in this process? Wrappers ask closed(); the
// start and end of MPI call the rest.
#pragma once

#include <link.h>

#include <atomic>
#include <cstdint>

namespace swy::driver_watch {

enum class State : std::uint8_t {
    kClosed,  // a job without GPUs, a process in which no CUDA driver is loaded and no report is asked for: every call
              // goes to Open MPI
    kOpen,    // a driver in this process: calls on host memory may take the fast path, and libraries need no watching
    kExpecting,  // a job with GPUs, and no driver in this process so far: as kOpen, but libraries are watched
    kWatched,    // a report or a trace is on: no call takes the fast path
};
// Hidden, like everything that a wrapper reads: the compiler then knows that the address is in this library.
[[gnu::visibility("hidden")]] extern std::atomic<State> state;

// Set the state, at MPI_Init. kWatched stays until close().
void open();  // sets kExpecting, until there is a driver
void watch_calls();
void close();

// A library of the process's link map. When it has a successor, something may have been loaded since the last check,
// perhaps a CUDA driver. It is always safe to read: a constant, or the last library at the end of MPI_Init if that one
// cannot be unloaded before MPI_Finalize.
[[gnu::visibility("hidden")]] extern std::atomic<const link_map*> last_seen;

// Searches the libraries when some were loaded since the last search; adopts a CUDA driver among them and sets kOpen.
State refresh();

// Remembers which libraries are there before MPI's own start loads its plugins. Without this call the watch is right
// but may cost more.
void before_init();

// Starts to watch, or starts afresh, at the end of MPI_Init or MPI_Session_init; adopts a driver that is loaded
// already.
void watch();

// Stops watching, before MPI_Finalize.
void unwatch();

inline bool changed() {
    return __atomic_load_n(&last_seen.load(std::memory_order_acquire)->l_next, __ATOMIC_RELAXED) != nullptr;
}

// For wrappers, which need not tell kExpecting from kOpen. known() calls no function, and returns kWatched where the
// state can only be found by look().
inline State known() {
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

}  // namespace swy::driver_watch
