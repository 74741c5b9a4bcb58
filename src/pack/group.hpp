// The numbers of ranks by which operands are counted.
#pragma once

#include <mpi.h>

namespace swy::pack {

struct Group {
    int rank = 0;
    int own = 0;     // processes of the own group
    int others = 0;  // entries of the vector arguments: size of the remote group on an intercommunicator, else of
                     // the own group
    bool inter = false;
};
Group group_of(MPI_Comm comm);

}  // namespace swy::pack
