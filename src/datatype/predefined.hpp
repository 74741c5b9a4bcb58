// The predefined datatypes of the MPI in use, in a table that is read without a lock. Only src/datatype uses this.
#pragma once

#include <mpi.h>

#include <atomic>
#include <cstdint>
#include <memory>

#include "datatype/element.hpp"
#include "datatype/layout.hpp"

namespace swy::datatype {

struct Predefined {
    ElementOf element;
    std::uint32_t size = 0;
    mutable std::atomic<const std::shared_ptr<const Layout>*> layout{
        nullptr};  // made when first asked for, never freed
};

// Returns nullptr for a type that has no row: derived, null, or made by MPI_Type_create_f90_*.
const Predefined* find_predefined(MPI_Datatype type);

}  // namespace swy::datatype
