// Who a rank's neighbours are in the process topology of its communicator (MPI 4.0 section 8.6).
#pragma once

#include <mpi.h>

#include <vector>

namespace swy::comm {

// In the order of the blocks of neighbourhood collectives, MPI_PROC_NULL among them. None for a communicator without a
// process topology.
struct Neighbours {
    std::vector<int> sources, targets;
};
Neighbours neighbours_of(MPI_Comm comm);

}  // namespace swy::comm
