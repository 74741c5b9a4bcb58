// What a call reads and writes on this rank: its operands' shapes, roots, peers and MPI_IN_PLACE worked out into runs
// of elements. Used by carrier/staged/ and by carrier/nccl/packing.cpp.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "datatype/layout.hpp"
#include "route/call.hpp"

namespace swy::carrier::staged {

// `count` elements of one layout, one extent apart, `offset` bytes behind the operand's address.
struct Segment {
    const datatype::Layout* layout;
    MPI_Aint offset;
    std::size_t count;
    std::size_t packed;  // bytes of the operand's data that come before it
};

struct Data {
    std::vector<Segment> reads;   // what MPI may read, or may leave as it is although it writes there
    std::vector<Segment> writes;  // what MPI may write
    std::vector<std::shared_ptr<const datatype::Layout>> layouts;
    // Blocks with counts of their own: how many bytes of data come before block r.
    std::vector<std::size_t> blocks;
    // The call takes types (and displacements, where it has them) for this operand alone, and looks at nothing but
    // bytes: other elements of the same size will do.
    bool substitutable = false;
    // What MPI may write is in `reads` too, so that all of it can be copied back whatever became of the call. Otherwise
    // MPI writes all of it or fails.
    bool kept = false;

    bool empty() const { return reads.empty() && writes.empty(); }
};

// `operand` must be one of the call's. Empty where MPI ignores it on this rank: MPI_IN_PLACE, not significant here, no
// elements, MPI_PROC_NULL; also where its arguments are not valid, which is for MPI to say. Throws std::bad_alloc.
Data data_of(const Call& call, const Operand& operand);

}  // namespace swy::carrier::staged
