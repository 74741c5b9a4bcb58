// Datatypes of equal signature that lie in memory in many ways, each with the list of places that the standard gives
// its elements (MPI 4.0 section 5.1): the reference for what a message leaves in memory. Test programs only.
#pragma once

#include <mpi.h>

#include <vector>

#include "../staged/views.hpp"

namespace p2p_test {

using staged_test::Dice;

// One element of a derived type: where[i] is the displacement, in bytes, of its i-th element of the base type.
class Layout {
  public:
    Layout(MPI_Datatype made, bool owned, std::vector<MPI_Aint> places, int base_bytes);
    ~Layout();
    Layout(Layout&& other) noexcept;
    Layout& operator=(Layout&&) = delete;

    int unit() const { return static_cast<int>(where.size()); }

    MPI_Datatype type;
    std::vector<MPI_Aint> where;
    MPI_Aint low = 0, high = 0,
             extent = 0;  // the first byte, the one behind the last, and from one element to the next

  private:
    bool owned_;
};

// A type of `unit` elements of `base`, of which `count` lie one extent apart. `sent`: not interleaved ones, which Open
// MPI 4.1.4 sends in a wrong order once in a while.
Layout make_plain_layout(MPI_Datatype base, int unit);  // one run
Layout make_layout(Dice& dice, MPI_Datatype base, int unit, int count, bool sent);

}  // namespace p2p_test
