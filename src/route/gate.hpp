// The first line of every door: is there anything for Switchyard to do in this process?
#pragma once

#include <link.h>

namespace swy::gate {

// A job without GPUs, a process in which no CUDA driver is loaded and no report asked for: every call is Open MPI's.
// `open` is set by MPI_Init (job with GPUs, or report or trace on) and by refresh().
extern bool open;

// The last library of the process's link map that has been looked at; when it has a successor, something was loaded
// since: perhaps a CUDA driver. It is pinned (RTLD_NODELETE) so that reading it stays safe. Points to a constant
// without successor until MPI_Init.
extern const link_map* last_seen;

// Looks at the libraries loaded since the last call, opens the gate when one is a CUDA driver. Returns !open.
bool refresh();

// Starts to look, at MPI_Init; adopts a driver that is loaded already.
void watch();

inline bool closed() {
    if (open) [[unlikely]]
        return false;
    if (last_seen->l_next != nullptr) [[unlikely]]
        return refresh();
    return true;
}

}  // namespace swy::gate
