// The memory layout of MPI datatypes: which bytes, relative to a buffer's address, the elements of a type cover.
// Routes and carriers ask; nothing here knows of CUDA or NCCL.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <memory>
#include <vector>

namespace swy::datatype {

struct Block {  // bytes [offset, offset + length) of one element of the type, in type map order; adjacent entries are merged
    MPI_Aint offset;
    std::size_t length;
};

struct Layout {
    std::size_t size = 0;          // bytes of data in one element
    MPI_Aint lb = 0, extent = 0;   // MPI_Type_get_extent
    MPI_Aint true_lb = 0, true_extent = 0;
    bool predefined = false;
    bool contiguous = false;       // n elements are n * size adjacent bytes starting at true_lb (extent == size, one block)
    MPI_Datatype element = MPI_DATATYPE_NULL;  // the one predefined type it is made of, MPI_DATATYPE_NULL where it has several
    std::vector<Block> blocks;     // empty for a type without data
    bool overlapping = false;      // entries overlap: legal to send only
};

// The layout of a committed or predefined type. Cached with the type (an attribute, freed with it). Never null for a valid type.
// Throws std::bad_alloc and nothing else.
std::shared_ptr<const Layout> layout_of(MPI_Datatype type);

// Bytes of data in one element; quick for predefined types (no call into MPI after the first for a type). 0 for MPI_DATATYPE_NULL.
std::size_t size_of(MPI_Datatype type);

}  // namespace swy::datatype
