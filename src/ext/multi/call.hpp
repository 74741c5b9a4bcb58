// The description of one call of the extension on several buffers of a process, as its wrappers pass it on. A slot is
// one buffer of one process; slots are numbered by rank, then by index, and every collective is MPI's collective with
// slots in place of ranks.
#pragma once

#include <mpi.h>

#include <array>
#include <cstddef>
#include <memory>
#include <vector>

#include "call/call.hpp"
#include "comm/state.hpp"
#include "datatype/kept_type.hpp"
#include "datatype/layout.hpp"

namespace swy::multi {

struct ListCall {
    CallId id;              // MPIX_Allreduce_multi
    CallId plain;           // MPI_Allreduce
    const void* const* in;  // MPI_IN_PLACE: all of this process's slots are in place
    void* const* out;
    int buffers;
    int in_count;
    MPI_Datatype in_type;
    int out_count;
    MPI_Datatype out_type;
    MPI_Op op;
    int root;  // a slot
    MPI_Comm comm;
    MPI_Request* request;  // of non-blocking calls
};

// Checks the arguments. Returns MPI's code of an error that has been raised; otherwise sets `state` to the state of the
// call's communicator.
int check(const ListCall& call, comm::State*& state);

// How many slots each rank has.
class SlotCounts {
  public:
    explicit SlotCounts(std::vector<int> counts);
    const std::vector<int>& counts() const { return counts_; }
    int count(int rank) const { return counts_[static_cast<std::size_t>(rank)]; }
    int first(int rank) const { return first_[static_cast<std::size_t>(rank)]; }
    int all() const { return first_.back(); }
    int ranks() const { return static_cast<int>(counts_.size()); }
    int rank_of(int slot) const;
    bool some_without() const;  // some rank has none

  private:
    std::vector<int> counts_, first_;
};

// A call that outlives its wrapper: copies of its lists, and duplicates of its types. Throws std::bad_alloc.
class Kept {
  public:
    explicit Kept(const ListCall& call);
    Kept(const Kept&) = delete;
    Kept& operator=(const Kept&) = delete;

    const ListCall& call() const { return call_; }
    int buffers() const { return call_.buffers; }
    bool moves() const { return call_.op == MPI_OP_NULL; }  // no reduction

    // The MPI call of one slot, whose number is `slot`, for NCCL; `operands` must outlive it. Its root is a slot.
    using Operands = std::array<Operand, 2>;
    Call of_slot(int index, int slot, Operands& operands) const;

    // What a slot sends and receives as one piece of blocks: a null address where it has no such buffer or MPI ignores
    // it. `slot` is its number, `slots` how many there are.
    Operand sent(int index, int slot, int slots) const;
    Operand received(int index, int slot, int slots) const;

    // Bytes of a slot's contribution, or of one block where there are blocks. The same on all ranks by MPI's rules.
    std::size_t block_bytes() const { return block_bytes_; }

  private:
    MPI_Datatype keep(MPI_Datatype type);
    bool in_place(int index) const;
    void* given(int index) const;

    ListCall call_;
    std::vector<const void*> in_;
    std::vector<void*> out_;
    std::vector<datatype::KeptType> types_;
    std::size_t block_bytes_ = 0;
};

}  // namespace swy::multi
