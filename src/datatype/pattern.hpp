// Strided patterns of bytes, from which a datatype's layout is built, one MPI constructor at a time. Only src/datatype
// uses this.
#pragma once

#include <cstddef>
#include <vector>

#include "datatype/layout.hpp"

namespace swy::datatype {

// Lowest and highest byte (one past) that runs of a pattern cover; low > high when there are none.
struct Hull {
    MPI_Aint low = 0, high = 0;
    bool empty = true;
    void add(MPI_Aint from, MPI_Aint to);
};

struct Pattern {
    std::size_t size = 0;
    std::vector<Block> blocks;
    std::vector<Dim> dims;

    static Pattern run(MPI_Aint offset, std::size_t length);

    // Puts another pattern behind this one in type map order, `at` bytes further in memory.
    void append(const Pattern& other, MPI_Aint at);

    // `count` copies of the whole, `stride` bytes apart.
    void repeat(std::size_t count, MPI_Aint stride);

    Hull hull() const;
    bool overlapping() const;

  private:
    std::uint32_t adopt(const std::vector<Dim>& others);
};

Hull hull_of(const Block& block, std::span<const Dim> dims);

}  // namespace swy::datatype
