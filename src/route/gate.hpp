// The first line of every door: is there anything for Switchyard to do in this process? Doors ask closed(), the start
// and end of MPI call the rest.
#pragma once

#include <link.h>

#include <atomic>

namespace swy::gate {

// A job without GPUs, a process in which no CUDA driver is loaded and no report asked for: every call is Open MPI's.
// `open` is set by MPI_Init (job with GPUs, or report or trace on) and by refresh().
extern std::atomic<bool> open;

// A library of the process's link map; when it has a successor, something may have been loaded since it was looked at:
// perhaps a CUDA driver. Always safe to read: a constant, or the last library at the end of MPI_Init, and then one that
// cannot be unloaded before MPI_Finalize.
extern std::atomic<const link_map*> last_seen;

// Looks at the libraries when some were loaded since the last look; adopts a CUDA driver among them and opens the gate.
// Returns !open.
bool refresh();

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

inline bool closed() {
    if (open.load(std::memory_order_relaxed)) [[unlikely]]
        return false;
    if (changed()) [[unlikely]]
        return refresh();
    return true;
}

}  // namespace swy::gate
