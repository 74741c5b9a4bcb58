// The set-ups of the NCCL communicator of a communicator's collectives. A blocking collective that needs one begins it
// and waits for it; one that does not block begins it and is staged, and later ones use what was made.
//
// All ranks begin the same set-ups, though they read the decisions of persistent collectives in any order: a vote says
// how many set-ups the rank has ended, and the set-up after the n-th is begun by whatever decision a rank reads first
// that says that all have ended n.
#pragma once

#include <cstdint>

#include "comm/state.hpp"
#include "device/device.hpp"

namespace swy::comm {

// Begins a set-up of the communicator's NCCL communicator unless it has been begun: the one after `ended` others. The
// ranks have agreed that all have device memory and some need one (State::needs_setup), and that all have ended so
// many. The communicator has a launch order. Under the engine's lock.
void begin_setup(State& state, const device::Location& location, std::uint64_t ended);

// The same, and waits. Collective; not under the lock. Returns the code of an error of MPI's own.
int set_up(State& state, const device::Location& location, std::uint64_t ended);

// Puts the result of a set-up that has ended into state.nccl and state.obstacle. Each collective does so before it
// looks at them, and has this number of set-ups behind it. Not under the lock.
void adopt_setup(State& state);

// Waits, with MPI's progress, until no set-up of the communicator is under way. Not under the lock.
void await_setup(const State& state);

}  // namespace swy::comm
