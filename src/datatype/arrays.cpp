// The array constructors: MPI_Type_create_subarray and MPI_Type_create_darray.
#include <algorithm>

#include "datatype/decode.hpp"

namespace swy::datatype {
namespace {

// Dimensions from the fastest in memory to the slowest.
std::vector<std::size_t> inner_first(std::size_t dims, int order) {
    std::vector<std::size_t> sequence(dims);
    for (std::size_t i = 0; i < dims; ++i)
        sequence[i] = order == MPI_ORDER_FORTRAN ? i : dims - 1 - i;
    return sequence;
}

// The indices i of [0, global) with (i / block) % processes == coordinate, each standing for `element` at i * extent:
// the standard's "cyclic" distribution.
Pattern cyclic(const Pattern& element, MPI_Aint extent, int global, int block, int coordinate, int processes) {
    const MPI_Aint first = MPI_Aint{coordinate} * block, period = MPI_Aint{processes} * block;
    Pattern all;
    if (first >= global)
        return all;
    const MPI_Aint whole = (global - first) >= block ? (global - first - block) / period + 1 : 0;
    Pattern blocks = element;
    blocks.repeat(static_cast<std::size_t>(block), extent);
    blocks.repeat(static_cast<std::size_t>(whole), period * extent);
    all.append(blocks, first * extent);
    const MPI_Aint last = first + whole * period;  // where the next block begins, which may be cut short by the end
    if (last < global) {
        Pattern rest = element;
        rest.repeat(static_cast<std::size_t>(std::min<MPI_Aint>(block, global - last)), extent);
        all.append(rest, last * extent);
    }
    return all;
}

int block_size(int distribution, int argument, int global, int processes) {
    switch (distribution) {
        case MPI_DISTRIBUTE_BLOCK:
            return argument == MPI_DISTRIBUTE_DFLT_DARG ? (global + processes - 1) / processes : argument;
        case MPI_DISTRIBUTE_CYCLIC:
            return argument == MPI_DISTRIBUTE_DFLT_DARG ? 1 : argument;
        default:
            return global;
    }
}

}  // namespace

// ints: ndims, sizes, subsizes, starts, order.
Pattern subarray(const std::vector<int>& ints, const Pattern& element, MPI_Aint extent) {
    const auto dims = static_cast<std::size_t>(ints.at(0));
    const int *sizes = &ints.at(1), *subsizes = sizes + dims, *starts = subsizes + dims;
    Pattern part = element;
    MPI_Aint stride = extent, at = 0;
    for (std::size_t d : inner_first(dims, ints.at(1 + 3 * dims))) {
        part.repeat(static_cast<std::size_t>(subsizes[d]), stride);
        at += starts[d] * stride;
        stride *= sizes[d];
    }
    Pattern all;
    all.append(part, at);
    return all;
}

// ints: size, rank, ndims, gsizes, distribs, dargs, psizes, order.
Pattern darray(const std::vector<int>& ints, const Pattern& element, MPI_Aint extent) {
    const int rank = ints.at(1);
    const auto dims = static_cast<std::size_t>(ints.at(2));
    const int *global = &ints.at(3), *distributions = global + dims, *arguments = distributions + dims,
              *processes = arguments + dims;
    std::vector<int> coordinates(dims);
    int left = rank, grid = ints.at(0);
    for (std::size_t d = 0; d < dims; ++d) {  // the process grid is always row-major
        grid /= processes[d];
        coordinates[d] = left / grid;
        left %= grid;
    }
    Pattern part = element;
    MPI_Aint stride = extent;
    for (std::size_t d : inner_first(dims, ints.at(3 + 4 * dims))) {
        const int block = block_size(distributions[d], arguments[d], global[d], processes[d]);
        part = cyclic(part, stride, global[d], block, coordinates[d], processes[d]);
        stride *= global[d];
    }
    return part;
}

}  // namespace swy::datatype
