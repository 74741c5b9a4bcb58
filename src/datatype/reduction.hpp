// Which reductions kernels make: MPI's predefined operators on the types that a GPU computes with. Carriers ask.
#pragma once

#include <mpi.h>

#include <cstddef>

#include "datatype/reduce_work.hpp"

namespace swy::datatype {

struct Reduction {
    ReduceType type;
    Combine op;
    std::size_t bytes, alignment;  // of an element, from one to the next
};

// False where MPI does not define the operator on the type, or a GPU has no such type (long double), or the program's
// own function reduces: all these are for MPI.
bool find_reduction(MPI_Datatype type, MPI_Op op, Reduction& found);

}  // namespace swy::datatype
