// The ranks and neighbours by which operands are counted. Used by carrier/staged/ alone.
#pragma once

#include <mpi.h>

namespace swy::carrier::staged {

struct Group {
    int rank = 0;
    int own = 0;     // processes of the own group
    int others = 0;  // processes that the vector arguments speak of: the remote group on an intercommunicator, the own
                     // one otherwise
    bool inter = false;
};
Group group_of(MPI_Comm comm);

struct Neighbours {
    int sources = 0, targets = 0;
};
Neighbours neighbours_of(MPI_Comm comm);  // none for a communicator without a process topology

}  // namespace swy::carrier::staged
