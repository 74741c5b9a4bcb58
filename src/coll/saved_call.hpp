// A collective's description that outlives the wrapper: an operation that agrees first makes its real call later.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "call/call.hpp"
#include "datatype/kept_type.hpp"

namespace swy::coll {

// Holds copies of what the call refers to, except its buffers: counts and displacements (Fortran's bindings free what
// they have converted at once), and duplicates of the types, which the program may free (MPI 4.0 section 2.5.1). Not
// for operators of the program's own, which cannot be duplicated. Throws std::bad_alloc.
class SavedCall {
  public:
    explicit SavedCall(const Call& call);
    SavedCall(const SavedCall&) = delete;
    SavedCall& operator=(const SavedCall&) = delete;

    const Call& call() const { return call_; }

  private:
    static constexpr std::size_t kOperands = 2;
    struct Arrays {
        std::vector<std::byte> counts, displs;
        std::vector<MPI_Datatype> types;
    };
    void keep(Operand& operand, Arrays& arrays, bool used, std::size_t entries);
    MPI_Datatype keep(MPI_Datatype type, bool used);

    std::array<Operand, kOperands> operands_;
    std::array<Arrays, kOperands> arrays_;
    std::vector<datatype::KeptType> types_;
    Call call_;
    const bool keeps_count_;
};

// Makes the real non-blocking call of the same kind with these operands, on another communicator of the same groups;
// the large-count form where the call is one. Returns MPI's code.
int call_again(const Call& call, const Operand* operands, MPI_Comm comm, MPI_Request* request);

}  // namespace swy::coll
