// Which reductions kernels can make: MPI's predefined operators on the types that a GPU computes with.
#pragma once

#include <mpi.h>

#include <cstddef>

#include "datatype/reduce_work.hpp"

namespace swy::datatype {

struct Reduction {
    ReduceType type;
    Combine op;
    std::size_t bytes, alignment;  // of an element: bytes, and their alignment
};

// Returns false where MPI does not define the operator on the type, or a GPU has no such type (long double), or the
// program's own function reduces: MPI makes all these.
bool find_reduction(MPI_Datatype type, MPI_Op op, Reduction& found);

}  // namespace swy::datatype
