// The staged carrier: device operands are replaced by host memory around the real MPI call. Takes every blocking call
// whose buffers are described by operands; decides nothing, agrees nothing, works on one rank alone.
#pragma once

#include "route/call.hpp"

namespace swy::carrier::staged {

// Copies what MPI may read from device to host, calls `real` with the copies, copies back what MPI may have written;
// leaves every byte outside the operands' data untouched, on the device too. Host operands are passed as they are.
// Returns MPI's code (or that of an error raised for a CUDA failure, through the owner's handler, naming the call and
// the CUDA error). `bytes` (may be null) receives how many bytes were copied between device and host in both
// directions.
int run(const Call& call, Real real, std::size_t* bytes = nullptr);

// Does `operand`, one of the call's, have data on a device here? False where MPI ignores the operand on this rank
// (MPI_IN_PLACE, not significant, no elements, MPI_PROC_NULL). The router asks this for every operand that is not
// simply a block of a predefined type.
bool touches_device(const Call& call, const Operand& operand);

}  // namespace swy::carrier::staged
