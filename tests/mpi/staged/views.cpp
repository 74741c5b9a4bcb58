#include "views.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace staged_test {
namespace {

constexpr MPI_Aint kInt = sizeof(int);

MPI_Datatype committed(MPI_Datatype type) {
    MPI_Type_commit(&type);
    return type;
}

// Frees what a type was made from.
MPI_Datatype made_of(MPI_Datatype type, MPI_Datatype old) {
    MPI_Type_free(&old);
    return committed(type);
}

MPI_Datatype vector(int ints, int step) {
    MPI_Datatype type;
    MPI_Type_vector(ints, 1, step, MPI_INT, &type);
    return committed(type);
}

// Distinct places in any order.
MPI_Datatype scattered(Dice& dice, int ints) {
    std::vector<int> places(static_cast<std::size_t>(3 * ints));
    std::iota(places.begin(), places.end(), -ints);
    for (std::size_t i = places.size() - 1; i > 0; --i)
        std::swap(places[i], places[static_cast<std::size_t>(dice.below(static_cast<int>(i) + 1))]);
    MPI_Datatype type;
    MPI_Type_create_indexed_block(ints, 1, places.data(), MPI_INT, &type);
    return committed(type);
}

// Far apart: the data is a small part of the memory between its ends.
MPI_Datatype spread(int ints) {
    MPI_Datatype type;
    MPI_Type_create_hvector(ints, 1, 40 * kInt + 4, MPI_INT, &type);
    return committed(type);
}

MPI_Datatype resized(int ints) {
    MPI_Datatype row, type;
    MPI_Type_contiguous(ints, MPI_INT, &row);
    MPI_Type_create_resized(row, -8, (ints + 5) * kInt, &type);
    return made_of(type, row);
}

MPI_Datatype structure(int ints) {
    const int half = ints / 2;
    MPI_Datatype backwards = vector(half, -2), type;
    const int lengths[] = {ints - half, 1};
    const MPI_Aint at[] = {12, (4 * ints + 7) * kInt};
    const MPI_Datatype members[] = {MPI_INT, backwards};
    MPI_Type_create_struct(half > 0 ? 2 : 1, lengths, at, members, &type);
    return made_of(type, backwards);
}

MPI_Datatype subarray(int ints) {
    const int sizes[] = {ints + 2, 3}, parts[] = {ints, 1}, starts[] = {1, 1};
    MPI_Datatype type;
    MPI_Type_create_subarray(2, sizes, parts, starts, MPI_ORDER_C, MPI_INT, &type);
    return committed(type);
}

// A column of a matrix, whose neighbours are the next columns: elements are interleaved.
constexpr int kColumns = 64;
MPI_Datatype column(int ints) {
    MPI_Datatype all = vector(ints, kColumns), type;
    MPI_Type_create_resized(all, 0, kInt, &type);
    return made_of(type, all);
}

MPI_Datatype contiguous(int ints) {
    MPI_Datatype type;
    MPI_Type_contiguous(ints, MPI_INT, &type);
    return committed(type);
}

}  // namespace

View::View(MPI_Datatype made, bool owned) : type(made), owned_(owned) {
    MPI_Aint lb = 0, true_extent = 0;
    MPI_Type_get_extent(type, &lb, &extent);
    MPI_Type_get_true_extent(type, &low, &true_extent);
    high = low + true_extent;
}
View::~View() {
    if (owned_)
        MPI_Type_free(&type);
}
View::View(View&& other) noexcept
    : type(other.type),
      low(other.low),
      high(other.high),
      extent(other.extent),
      owned_(std::exchange(other.owned_, false)) {}

View make_view(Dice& dice, int ints, int most) {
    const int form = plain_only ? 8 : dice.below(9);
    if (ints == 1 && form < 3)
        return View(MPI_INT, false);
    switch (form) {
        case 1:
            return View(vector(ints, 3), true);
        case 2:
            return View(scattered(dice, ints), true);
        case 3:
            return View(spread(ints), true);
        case 4:
            return View(resized(ints), true);
        case 5:
            return View(structure(ints), true);
        case 6:
            return View(subarray(ints), true);
        case 7:
            return View(most <= kColumns ? column(ints) : contiguous(ints), true);
        default:
            return View(contiguous(ints), true);
    }
}

}  // namespace staged_test
