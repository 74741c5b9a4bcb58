// Maps MPI's elements and operators to NCCL's, one table row each. Only this folder uses it.
#pragma once

#include <nccl.h>

#include <cstddef>

#include "call/reason.hpp"
#include "datatype/element.hpp"

namespace swy::nccl {

struct Reduction {
    Reason obstacle = Reason::kNone;
    ncclDataType_t type = ncclInt8;
    ncclRedOp_t op = ncclSum;
    std::size_t type_bytes = 1;
    std::size_t per_element = 1;  // NCCL elements in one MPI element: 2 for complex numbers
};

// How NCCL reduces `element` by `op`; `obstacle` is kDatatype or kOperator where it cannot.
Reduction reduction(datatype::Operator op, datatype::Element element);

}  // namespace swy::nccl
