// Derives the layout of an MPI datatype by MPI_Type_get_envelope and MPI_Type_get_contents. Only layout.cpp uses this.
#pragma once

#include <mpi.h>

#include "datatype/layout.hpp"
#include "datatype/pattern.hpp"

namespace swy::datatype {

// Computes the layout anew (the layouts of the types that it is made of come from layout_of). Throws std::bad_alloc.
Layout decode(MPI_Datatype type);

// The arguments of the type's constructor, in the standard's order (MPI 3.1 section 4.1.13). Types that MPI made for
// the answer are freed with the object.
class Contents {
  public:
    explicit Contents(MPI_Datatype type);
    ~Contents();
    Contents(const Contents&) = delete;
    Contents& operator=(const Contents&) = delete;

    int combiner = MPI_COMBINER_NAMED;
    std::vector<int> ints;
    std::vector<MPI_Aint> addresses;
    std::vector<MPI_Datatype> types;
};

// MPI_Type_create_darray (MPI 3.1 section 4.1.4): the part of an array that one process of a grid holds.
Pattern darray(const std::vector<int>& ints, const Pattern& element, MPI_Aint extent);
// MPI_Type_create_subarray.
Pattern subarray(const std::vector<int>& ints, const Pattern& element, MPI_Aint extent);

}  // namespace swy::datatype
