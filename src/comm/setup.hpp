// Gives a communicator the NCCL communicator for the devices that its ranks now use: a cached one, a new one, or the
// reason why there is none.
#pragma once

#include <memory>

#include "comm/state.hpp"
#include "device/device.hpp"

namespace swy::comm {

// Sets state.nccl or state.obstacle, alike on all ranks. Collective over the communicator, after an agreement that all
// ranks have device memory and some need a set-up. Returns the code of an error of MPI's own.
int set_up(State& state, const device::Location& location);

// The device that this process last brought to an NCCL communicator; -1 when there was none. For the report.
int device_in_use();
void note_device(int ordinal);  // a pair communicator of point-to-point uses it

}  // namespace swy::comm
