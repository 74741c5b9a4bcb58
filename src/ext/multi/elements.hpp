// Elements of MPI datatypes in host memory, and their bytes one after the other. Only src/ext/multi uses this.
// Functions that need memory throw std::bad_alloc.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <memory>

#include "call/call.hpp"
#include "datatype/layout.hpp"

namespace swy::multi {

// Copy `count` elements of the operand, from the `first` one on, to and from packed bytes.
void to_bytes(const Operand& operand, MPI_Count first, MPI_Count count, std::byte* bytes);
void from_bytes(const std::byte* bytes, const Operand& operand, MPI_Count first, MPI_Count count);

// Memory for elements of a type, all of which MPI may write.
class Elements {
  public:
    Elements() = default;
    Elements(MPI_Datatype type, MPI_Count count);
    const Operand& operand() const { return operand_; }
    std::byte* at(MPI_Count element) const;

  private:
    std::unique_ptr<std::byte[]> memory_;
    MPI_Aint extent_ = 0;
    Operand operand_;
};

// Copies `count` elements from one operand's element `from_first` on to another operand's element `to_first`.
void copy(const Operand& from, MPI_Count from_first, const Operand& to, MPI_Count to_first, MPI_Count count);

// inout = in op inout, for `count` elements each. Returns MPI's code.
int reduce(const std::byte* in, std::byte* inout, int count, MPI_Datatype type, MPI_Op op);

// The address of an operand's element.
std::byte* element(const Operand& operand, MPI_Count number);

}  // namespace swy::multi
