// A rank's neighbours in the process topology of its communicator (MPI 4.0 section 8.6).
#pragma once

#include <mpi.h>

#include <vector>

namespace swy::pack {

// The neighbours in the order of the blocks of neighbourhood collectives, MPI_PROC_NULL included. Empty for a
// communicator without a process topology.
struct Neighbours {
    std::vector<int> sources, targets;
};
Neighbours neighbours_of(MPI_Comm comm);

}  // namespace swy::pack
