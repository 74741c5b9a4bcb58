// MPI_Probe, MPI_Iprobe, MPI_Mprobe and MPI_Improbe where envelopes may be met. take.cpp asks.
#pragma once

#include "route/call.hpp"

namespace swy::p2p {

// Returns at once when `asked.flag` is there to be set, else when a message is. MPI's code.
int probe(MPI_Comm comm, const Matching& asked, bool matched);

}  // namespace swy::p2p
