// The memory layout of MPI datatypes: which bytes, relative to a buffer's address, the elements of a type cover.
// Nothing here knows of CUDA or NCCL.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace swy::datatype {

// One level of regular repetition: `count` copies, `stride` bytes apart in memory and `packed_stride` bytes apart in
// the packed form.
struct Dim {
    std::size_t count;
    MPI_Aint stride;
    std::size_t packed_stride;
    bool operator==(const Dim&) const = default;
};

// `length` adjacent bytes at `offset` of one element, repeated along the block's dims (Layout::dims_of; innermost
// first, none for a single run). `packed` is the position of the first run among the element's bytes in type map order,
// that is in what MPI_Pack makes of it. A vector of a million blocks, or a subarray, is one Block with dims.
struct Block {
    MPI_Aint offset;
    std::size_t length;
    std::size_t packed;
    std::uint32_t first_dim = 0;
    std::uint32_t dims = 0;
};

struct Plan;

struct Layout {
    std::size_t size = 0;                   // bytes of data in one element
    MPI_Aint lb = 0, extent = 0;            // MPI_Type_get_extent
    MPI_Aint true_lb = 0, true_extent = 0;  // of the data, by the blocks; 0, 0 for a type without data
    bool predefined = false;                // named, or made by MPI_Type_create_f90_*
    bool contiguous = false;  // n elements are n * size adjacent bytes starting at true_lb (extent == size, one run)
    MPI_Datatype element =
        MPI_DATATYPE_NULL;      // the one predefined type it is made of, MPI_DATATYPE_NULL where it has several
    std::vector<Block> blocks;  // empty for a type without data; runs that touch are merged where their order allows
    std::vector<Dim> dims;
    bool overlapping = false;          // entries of one element overlap: legal to send only
    std::shared_ptr<const Plan> plan;  // how kernels pack it (plan.hpp); null where they do not

    std::span<const Dim> dims_of(const Block& block) const { return {dims.data() + block.first_dim, block.dims}; }
};

// The layout of a committed or predefined type. Cached with the type (an attribute, freed with it). Never null for a
// valid type. Throws std::bad_alloc and nothing else.
std::shared_ptr<const Layout> layout_of(MPI_Datatype type);

// Bytes of data in one element; fast for predefined types (no call into MPI after the first for a type). 0 for
// MPI_DATATYPE_NULL.
std::size_t size_of(MPI_Datatype type);

// Frees what layout_of caches itself (not what is attached to types); called before MPI is finalized. Harmless when
// called twice or without use.
void release();

}  // namespace swy::datatype
