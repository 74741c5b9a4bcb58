// What a call reads and writes on this rank: its operands' shapes, roots, peers and MPI_IN_PLACE worked out into runs
// of elements. Used by src/pack, src/staging and nccl/packing.cpp.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "call/call.hpp"
#include "datatype/layout.hpp"

namespace swy::pack {

// `count` elements of one layout, one extent apart, `offset` bytes behind the operand's address.
struct Segment {
    const datatype::Layout* layout;
    MPI_Aint offset;
    std::size_t count;
    std::size_t packed;  // bytes of the operand's data that come before it
};

struct Data {
    std::vector<Segment> reads;   // what MPI may read, or may leave unchanged although it writes there
    std::vector<Segment> writes;  // what MPI may write
    std::vector<std::shared_ptr<const datatype::Layout>> layouts;
    // For blocks with counts of their own: how many bytes of data precede block r.
    std::vector<std::size_t> blocks;
    // The call has type arguments (and displacements, where it has them) for this operand alone and looks only at
    // bytes: other elements of the same total size may be substituted.
    bool substitutable = false;
    // `reads` includes what MPI may write, so that all of it can be copied back whatever the call has done. Otherwise
    // MPI writes all of it or fails.
    bool kept = false;

    bool empty() const { return reads.empty() && writes.empty(); }
};

// `operand` must be one of the call's. The result is empty where MPI ignores the operand on this rank (MPI_IN_PLACE,
// not significant here, no elements, MPI_PROC_NULL), and where its arguments are invalid, which MPI reports. Throws
// std::bad_alloc.
Data data_of(const Call& call, const Operand& operand);

}  // namespace swy::pack
