// The description of one call of the extension on several buffers of a process: what its doors hand on. A place is one
// buffer of one process; places are numbered by rank, then by index, and every collective is MPI's on all places.
#pragma once

#include <mpi.h>

#include <array>
#include <cstddef>
#include <memory>
#include <vector>

#include "datatype/layout.hpp"
#include "route/call.hpp"

namespace swy::multi {

struct ListCall {
    CallId id;              // MPIX_Allreduce_multi
    CallId plain;           // MPI_Allreduce
    const void* const* in;  // MPI_IN_PLACE: all of this process's
    void* const* out;
    int buffers;
    int in_count;
    MPI_Datatype in_type;
    int out_count;
    MPI_Datatype out_type;
    MPI_Op op;
    int root;  // a place
    MPI_Comm comm;
    MPI_Request* request;  // of calls that do not block
};

// How many places each rank has.
class PlaceCounts {
  public:
    explicit PlaceCounts(std::vector<int> counts);
    const std::vector<int>& counts() const { return counts_; }
    int count(int rank) const { return counts_[static_cast<std::size_t>(rank)]; }
    int first(int rank) const { return first_[static_cast<std::size_t>(rank)]; }
    int all() const { return first_.back(); }
    int ranks() const { return static_cast<int>(counts_.size()); }
    int rank_of(int place) const;
    bool some_without() const;  // a rank has none

  private:
    std::vector<int> counts_, first_;
};

// A call that outlives its door: copies of its lists, and duplicates of its types. Throws std::bad_alloc.
class Kept {
  public:
    explicit Kept(const ListCall& call);
    ~Kept();
    Kept(const Kept&) = delete;
    Kept& operator=(const Kept&) = delete;

    const ListCall& call() const { return call_; }
    int buffers() const { return call_.buffers; }
    bool moves() const { return call_.op == MPI_OP_NULL; }  // no reduction

    // MPI's call of one place, whose number is `place`, for NCCL; `operands` must outlive it. Its root is a place.
    using Operands = std::array<Operand, 2>;
    Call of_place(int index, int place, Operands& operands) const;

    // What a place passes in one piece of `blocks` blocks: nullptr address where it has no such buffer or MPI ignores
    // it. `place` is its number, `places` how many there are.
    Operand sent(int index, int place, int places) const;
    Operand received(int index, int place, int places) const;

    // Bytes of a place's contribution: of one block where there are blocks. The same on all ranks by MPI's rules.
    std::size_t block_bytes() const { return block_bytes_; }

  private:
    MPI_Datatype keep(MPI_Datatype type);
    bool in_place(int index) const;
    void* given(int index) const;

    ListCall call_;
    std::vector<const void*> in_;
    std::vector<void*> out_;
    std::vector<MPI_Datatype> made_;
    std::size_t block_bytes_ = 0;
};

}  // namespace swy::multi
