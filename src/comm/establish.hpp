// Gives a communicator the NCCL communicator for the devices that its ranks now use: a cached one, a new one, or the
// reason why there is none.
#pragma once

#include <memory>

#include "comm/state.hpp"
#include "device/device.hpp"

namespace swy::comm {

// Collective over the communicator, by all ranks, after an agreement that all have device memory and some need a
// set-up. Afterwards state.nccl or state.obstacle is set, alike on all ranks. An error of MPI's own is returned as its
// code.
int establish(State& state, const device::Location& location);

// `coming` is begun for the communicator by all its ranks, split off its parent's and on the same devices. Local.
void expect(State& state, std::shared_ptr<carrier::nccl::Communicator> coming, const State& parent);

// Waits, with MPI's progress, until NCCL is through with one that was begun.
bool is_made(carrier::nccl::Communicator& communicator);

// After an agreement: all ranks have state.coming ready, and use it; or some rank has not, and all give it up. Local.
void take_up_coming(State& state);
void drop_coming(State& state);

// The device that this process last brought to an NCCL communicator; -1 when there was none. For the report.
int device_in_use();
void note_device(int ordinal);  // a lane of point-to-point uses it

}  // namespace swy::comm
