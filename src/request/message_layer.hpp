// Open MPI's layer for messages between processes ("PML"), as far as its implementations differ for Switchyard.
#pragma once

#include <string>

namespace swy::request {

// Returns the layer's name: "ob1" (Open MPI's own transports), "ucx", "cm" (Omni-Path, and libfabric's networks); ""
// where it cannot be found out. Called once MPI is initialised.
const std::string& message_layer();

// Makes all of MPI's blocking sends, those inside its collectives too, of that layer's non-blocking send and MPI_Wait,
// where the layer is "cm". Open MPI's blocking sends run MPI's progress, and with it the engine, while they wait. The
// layer "cm" alone hands a blocking send to the network's library, which waits for the network alone: whatever else
// this process owes its peers stands still, and two ranks that wait for each other so wait for ever (MPI 4.0 section
// 3.5). Other layers are left as they are. Called at MPI_Init in jobs that send envelopes.
void have_blocking_sends_run_progress();

}  // namespace swy::request
