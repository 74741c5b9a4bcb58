// The last step of a reduction with MPIX_AVG that MPI makes as a sum: the division, where the result is in host memory.
// dispatch.cpp uses it for blocking calls, begin.cpp for those that leave a request.
#pragma once

#include <cstddef>

#include "call/call.hpp"
#include "datatype/element.hpp"

namespace swy::staging {

class Average {
  public:
    // `operands` are those that MPI gets, in host memory. Where this rank receives no result, there is nothing to
    // divide. Throws std::bad_alloc.
    Average(const Call& call, const Operand* operands);

    void divide() const;

  private:
    void* result_ = nullptr;
    std::size_t count_ = 0;
    datatype::Element element_ = datatype::Element::kNone;
    int processes_ = 1;
};

}  // namespace swy::staging
