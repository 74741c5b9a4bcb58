#include "random_type.hpp"

#include <utility>

namespace model {
namespace {

constexpr int kConstructors = 11;

// The bytes of `count` copies of `old` that start at `at`, one extent apart.
void place(std::vector<MPI_Aint>& where, const Type& old, int count, MPI_Aint at) {
    const MPI_Aint extent = old.extent();
    for (int i = 0; i < count; ++i)
        for (MPI_Aint byte : old.where)
            where.push_back(at + i * extent + byte);
}

Type made(MPI_Datatype handle, std::vector<MPI_Aint> where) {
    Type type(handle);
    type.where = std::move(where);
    type.owned = true;
    return type;
}

struct ShortInt {
    short first;
    int second;
};

}  // namespace

Type::Type(MPI_Datatype predefined) : handle(predefined) {}
Type::~Type() {
    if (owned)
        MPI_Type_free(&handle);
}
Type::Type(Type&& other) noexcept
    : handle(other.handle), where(std::move(other.where)), owned(std::exchange(other.owned, false)) {}
Type& Type::operator=(Type&& other) noexcept {
    std::swap(handle, other.handle);
    std::swap(where, other.where);
    std::swap(owned, other.owned);
    return *this;
}

MPI_Aint Type::extent() const {
    MPI_Aint lb = 0, extent = 0;
    MPI_Type_get_extent(handle, &lb, &extent);
    return extent;
}

Type Maker::predefined() {
    // No MPI_LONG_DOUBLE: Open MPI 5.0 does not always copy the bytes that such a number does not use.
    static const std::pair<MPI_Datatype, int> kTypes[] = {
        {MPI_CHAR, 1},
        {MPI_SHORT, 2},
        {MPI_INT, 4},
        {MPI_FLOAT, 4},
        {MPI_DOUBLE, 8},
        {MPI_BYTE, 1},
        {MPI_C_DOUBLE_COMPLEX, 16},
        {MPI_DOUBLE_INT, 12},
        {MPI_SHORT_INT, 6},
        {MPI_2INT, 8},
        {MPI_INTEGER, 4},
    };
    const auto& [handle, size] = kTypes[below(std::size(kTypes))];
    Type type(handle);
    for (int i = 0; i < size; ++i)
        type.where.push_back(handle == MPI_SHORT_INT && i >= 2 ? offsetof(ShortInt, second) + i - 2 : i);
    return type;
}

Type Maker::dup(const Type& old) {
    MPI_Datatype handle;
    MPI_Type_dup(old.handle, &handle);
    return made(handle, old.where);
}

Type Maker::resized(const Type& old) {
    MPI_Datatype handle;
    const MPI_Aint extent = old.extent();
    MPI_Type_create_resized(old.handle, below(40) - 20,
                            extent / 2 + below(static_cast<int>(extent < 0 ? 8 : extent + 8)), &handle);
    return made(handle, old.where);
}

Type Maker::contiguous(const Type& old) {
    MPI_Datatype handle;
    const int count = below(6);
    MPI_Type_contiguous(count, old.handle, &handle);
    std::vector<MPI_Aint> where;
    place(where, old, count, 0);
    return made(handle, std::move(where));
}

Type Maker::vector(const Type& old, bool bytes) {
    MPI_Datatype handle;
    const int count = below(7), length = below(4);
    int step = below(14) - 5, more = bytes ? below(9) - 4 : 0;
    if (step * old.extent() + more == -1)  // which Open MPI 4.1.4 has otherwise than the standard: a test of its own
        step = more = 0;
    const MPI_Aint stride = step * old.extent() + more;
    if (bytes)
        MPI_Type_create_hvector(count, length, stride, old.handle, &handle);
    else
        MPI_Type_vector(count, length, step, old.handle, &handle);
    std::vector<MPI_Aint> where;
    for (int i = 0; i < count; ++i)
        place(where, old, length, i * stride);
    return made(handle, std::move(where));
}

Type Maker::indexed(const Type& old, bool bytes, bool block) {
    MPI_Datatype handle;
    const int count = below(8), one_length = 1 + below(3);
    const bool regular = below(3) == 0;
    const int step = below(9) - 2;
    std::vector<int> lengths, displacements;
    std::vector<MPI_Aint> addresses;
    const MPI_Aint extent = old.extent();
    for (int i = 0; i < count; ++i) {
        lengths.push_back(block || regular ? one_length : below(4));
        displacements.push_back(regular ? i * step : below(40) - 10);
        addresses.push_back(bytes ? displacements.back() * extent + (regular ? 3 : below(7))
                                  : displacements.back() * extent);
    }
    if (bytes && block)
        MPI_Type_create_hindexed_block(count, one_length, addresses.data(), old.handle, &handle);
    else if (bytes)
        MPI_Type_create_hindexed(count, lengths.data(), addresses.data(), old.handle, &handle);
    else if (block)
        MPI_Type_create_indexed_block(count, one_length, displacements.data(), old.handle, &handle);
    else
        MPI_Type_indexed(count, lengths.data(), displacements.data(), old.handle, &handle);
    std::vector<MPI_Aint> where;
    for (int i = 0; i < count; ++i)
        place(where, old, lengths[static_cast<std::size_t>(i)], addresses[static_cast<std::size_t>(i)]);
    return made(handle, std::move(where));
}

Type Maker::structure(const Type& old, int depth) {
    std::vector<Type> others;
    others.push_back(make(depth > 1 ? depth - 1 : 0));
    others.push_back(make(0));
    MPI_Datatype handle;
    std::vector<int> lengths;
    std::vector<MPI_Aint> at;
    std::vector<MPI_Datatype> types;
    std::vector<MPI_Aint> where;
    const int count = below(5);
    for (int i = 0; i < count; ++i) {
        const int which = below(3);
        const Type& member = which == 0 ? old : others[static_cast<std::size_t>(which - 1)];
        lengths.push_back(below(3));
        at.push_back(below(300) - 60);
        types.push_back(member.handle);
        place(where, member, lengths.back(), at.back());
    }
    MPI_Type_create_struct(count, lengths.data(), at.data(), types.data(), &handle);
    return made(handle, std::move(where));
}

Type Maker::subarray(const Type& old) {
    MPI_Datatype handle;
    const int dims = 1 + below(3);
    const int order = below(2) != 0 ? MPI_ORDER_C : MPI_ORDER_FORTRAN;
    int sizes[3], parts[3], starts[3];
    for (int d = 0; d < dims; ++d) {
        sizes[d] = 1 + below(5);
        parts[d] = 1 + below(sizes[d]);
        starts[d] = below(sizes[d] - parts[d] + 1);
    }
    MPI_Type_create_subarray(dims, sizes, parts, starts, order, old.handle, &handle);
    int slow_first[3];  // dimensions, the slowest in memory first
    for (int d = 0; d < dims; ++d)
        slow_first[d] = order == MPI_ORDER_C ? d : dims - 1 - d;
    int all = 1;
    for (int d = 0; d < dims; ++d)
        all *= sizes[d];
    std::vector<MPI_Aint> where;
    for (int i = 0; i < all; ++i) {  // all elements in memory order; those inside belong to the type
        int rest = i;
        bool inside = true;
        for (int d = dims - 1; d >= 0; --d) {
            const int dim = slow_first[d], index = rest % sizes[dim];
            rest /= sizes[dim];
            inside = inside && index >= starts[dim] && index < starts[dim] + parts[dim];
        }
        if (inside)
            place(where, old, 1, i * old.extent());
    }
    return made(handle, std::move(where));
}

Type Maker::darray(const Type& old) {
    MPI_Datatype handle;
    const int dims = 1 + below(3);
    const int order = below(2) != 0 ? MPI_ORDER_C : MPI_ORDER_FORTRAN;
    int sizes[3], kinds[3], arguments[3], grid[3], blocks[3], processes = 1;
    for (int d = 0; d < dims; ++d) {
        sizes[d] = 1 + below(6);
        kinds[d] = below(3) == 0 ? MPI_DISTRIBUTE_NONE : below(2) != 0 ? MPI_DISTRIBUTE_BLOCK : MPI_DISTRIBUTE_CYCLIC;
        grid[d] = kinds[d] == MPI_DISTRIBUTE_NONE ? 1 : 1 + below(3);
        const int even = (sizes[d] + grid[d] - 1) / grid[d];
        const bool defaults = kinds[d] == MPI_DISTRIBUTE_NONE || below(2) != 0;
        blocks[d] = kinds[d] == MPI_DISTRIBUTE_NONE    ? sizes[d]
                    : kinds[d] == MPI_DISTRIBUTE_BLOCK ? (defaults ? even : even + below(2))
                                                       : (defaults ? 1 : 1 + below(3));
        arguments[d] = defaults ? MPI_DISTRIBUTE_DFLT_DARG : blocks[d];
        processes *= grid[d];
    }
    const int rank = below(processes);
    MPI_Type_create_darray(processes, rank, dims, sizes, kinds, arguments, grid, order, old.handle, &handle);
    int coordinates[3], rest_of_rank = rank, slow_first[3], all = 1;
    for (int d = dims - 1; d >= 0; --d) {  // row-major, the last dimension fastest
        coordinates[d] = rest_of_rank % grid[d];
        rest_of_rank /= grid[d];
    }
    for (int d = 0; d < dims; ++d) {
        slow_first[d] = order == MPI_ORDER_C ? d : dims - 1 - d;
        all *= sizes[d];
    }
    std::vector<MPI_Aint> where;
    for (int i = 0; i < all; ++i) {
        int rest = i;
        bool mine = true;
        for (int d = dims - 1; d >= 0; --d) {
            const int dim = slow_first[d], index = rest % sizes[dim];
            rest /= sizes[dim];
            mine = mine && index / blocks[dim] % grid[dim] == coordinates[dim];
        }
        if (mine)
            place(where, old, 1, i * old.extent());
    }
    return made(handle, std::move(where));
}

Type Maker::derive(const Type& old, int depth) {
    switch (below(kConstructors)) {
        case 0:
            return dup(old);
        case 1:
            return resized(old);
        case 2:
            return contiguous(old);
        case 3:
            return vector(old, false);
        case 4:
            return vector(old, true);
        case 5:
            return indexed(old, false, false);
        case 6:
            return indexed(old, true, false);
        case 7:
            return indexed(old, below(2) != 0, true);
        case 8:
            return structure(old, depth);
        case 9:
            return subarray(old);
        default:  // Open MPI 4.1.4 has no arrays of elements without data or extent
            return old.extent() > 0 && !old.where.empty() ? darray(old) : dup(old);
    }
}

Type Maker::make(int depth) {
    Type type = predefined();
    for (int level = 0; level < depth; ++level) {
        Type next = derive(type, depth - level - 1);
        if (next.where.size() > most_bytes_)
            continue;
        type = std::move(next);
    }
    if (type.owned)
        MPI_Type_commit(&type.handle);
    return type;
}

}  // namespace model
