#include "layout.hpp"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

namespace p2p_test {
namespace {

constexpr int kColumns = 64;

// What a maker of types is told, and helps itself with.
struct Base {
    MPI_Datatype type;
    int bytes;
    int unit;

    // The places at(0), at(1), ... given in elements of the base type.
    template <typename At>
    std::vector<MPI_Aint> places(At at) const {
        std::vector<MPI_Aint> all;
        for (int i = 0; i < unit; ++i)
            all.push_back(MPI_Aint{at(i)} * bytes);
        return all;
    }
    Layout layout(MPI_Datatype made, std::vector<MPI_Aint> where) const {
        MPI_Type_commit(&made);
        return Layout(made, true, std::move(where), bytes);
    }
};

MPI_Datatype free_after(MPI_Datatype made, MPI_Datatype old) {
    MPI_Type_free(&old);
    return made;
}

MPI_Datatype vector_of(const Base& base, int count, int step) {
    MPI_Datatype made;
    MPI_Type_vector(count, 1, step, base.type, &made);
    return made;
}

Layout plain(Dice&, const Base& base) {
    return make_plain_layout(base.type, base.unit);
}

Layout spread(Dice&, const Base& base) {
    return base.layout(vector_of(base, base.unit, 3), base.places([](int i) { return 3 * i; }));
}

Layout backwards(Dice&, const Base& base) {
    MPI_Datatype made;
    MPI_Type_create_hvector(base.unit, 1, MPI_Aint{-2} * base.bytes, base.type, &made);
    return base.layout(made, base.places([](int i) { return -2 * i; }));
}

// Runs of elements in any order, with gaps between them.
Layout indexed(Dice& dice, const Base& base) {
    std::vector<int> lengths, at;
    for (int left = base.unit; left > 0; left -= lengths.back())
        lengths.push_back(1 + dice.below(left));
    std::vector<std::size_t> order(lengths.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    for (std::size_t i = order.size() - 1; i > 0; --i)
        std::swap(order[i], order[static_cast<std::size_t>(dice.below(static_cast<int>(i) + 1))]);
    at.resize(lengths.size());
    int next = -base.unit;
    for (std::size_t i : order) {
        at[i] = next;
        next += lengths[i] + dice.below(3);
    }
    std::vector<MPI_Aint> where;
    for (std::size_t i = 0; i < at.size(); ++i)
        for (int j = 0; j < lengths[i]; ++j)
            where.push_back(MPI_Aint{at[i] + j} * base.bytes);
    MPI_Datatype made;
    MPI_Type_indexed(static_cast<int>(at.size()), lengths.data(), at.data(), base.type, &made);
    return base.layout(made, std::move(where));
}

Layout resized(Dice&, const Base& base) {
    MPI_Datatype row, made;
    MPI_Type_contiguous(base.unit, base.type, &row);
    MPI_Type_create_resized(row, MPI_Aint{-2} * base.bytes, MPI_Aint{base.unit + 3} * base.bytes, &made);
    return base.layout(free_after(made, row), base.places([](int i) { return i; }));
}

// A run, and behind it elements from the last to the first.
Layout structure(Dice&, const Base& base) {
    const int half = base.unit / 2, run = base.unit - half, far = 3 * base.unit + 4;
    MPI_Datatype behind = vector_of(base, half, -2), made;
    const int lengths[] = {run, 1};
    const MPI_Aint at[] = {MPI_Aint{3} * base.bytes, MPI_Aint{far} * base.bytes};
    const MPI_Datatype members[] = {base.type, behind};
    MPI_Type_create_struct(half > 0 ? 2 : 1, lengths, at, members, &made);
    return base.layout(free_after(made, behind),
                       base.places([=](int i) { return i < run ? 3 + i : far - 2 * (i - run); }));
}

Layout subarray(Dice&, const Base& base) {
    const int sizes[] = {base.unit + 2, 3}, parts[] = {base.unit, 1}, starts[] = {1, 1};
    MPI_Datatype made;
    MPI_Type_create_subarray(2, sizes, parts, starts, MPI_ORDER_C, base.type, &made);
    return base.layout(made, base.places([](int i) { return 3 * (i + 1) + 1; }));
}

// Pairs with a gap inside and one behind, a type of a type of a type.
Layout nested(Dice& dice, const Base& base) {
    if (base.unit % 2 != 0)
        return spread(dice, base);
    MPI_Datatype pair = vector_of(base, 2, 2), wide, made;
    MPI_Type_create_resized(pair, 0, MPI_Aint{4} * base.bytes, &wide);
    MPI_Type_contiguous(base.unit / 2, free_after(wide, pair), &made);
    return base.layout(free_after(made, wide), base.places([](int i) { return 4 * (i / 2) + 2 * (i % 2); }));
}

// A column of a matrix, whose neighbours are the next columns: elements are interleaved.
Layout column(Dice&, const Base& base) {
    MPI_Datatype all = vector_of(base, base.unit, kColumns), made;
    MPI_Type_create_resized(all, 0, base.bytes, &made);
    return base.layout(free_after(made, all), base.places([](int i) { return kColumns * i; }));
}

}  // namespace

Layout::Layout(MPI_Datatype made, bool owned, std::vector<MPI_Aint> places, int base_bytes)
    : type(made), where(std::move(places)), owned_(owned) {
    MPI_Aint lower_bound = 0;
    MPI_Type_get_extent(type, &lower_bound, &extent);
    low = *std::min_element(where.begin(), where.end());
    high = *std::max_element(where.begin(), where.end()) + base_bytes;
}
Layout::~Layout() {
    if (owned_)
        MPI_Type_free(&type);
}
Layout::Layout(Layout&& other) noexcept
    : type(other.type),
      where(std::move(other.where)),
      low(other.low),
      high(other.high),
      extent(other.extent),
      owned_(std::exchange(other.owned_, false)) {}

Layout make_plain_layout(MPI_Datatype base, int unit) {
    int bytes = 0;
    MPI_Type_size(base, &bytes);
    if (unit == 1)
        return Layout(base, false, {0}, bytes);
    MPI_Datatype made;
    MPI_Type_contiguous(unit, base, &made);
    const Base of{base, bytes, unit};
    return of.layout(made, of.places([](int i) { return i; }));
}

Layout make_layout(Dice& dice, MPI_Datatype base_type, int unit, int count, bool sent) {
    constexpr Layout (*kMakers[])(Dice&, const Base&) = {plain,     spread,   backwards, indexed, resized,
                                                         structure, subarray, nested,    plain};
    int bytes = 0;
    MPI_Type_size(base_type, &bytes);
    const Base base{base_type, bytes, unit};
    if (unit == 1 && dice.one_in(3))
        return Layout(base_type, false, {0}, bytes);
    if (!sent && count <= kColumns && unit <= 16 && dice.one_in(10))
        return column(dice, base);
    const bool large = MPI_Aint{unit} * count * bytes > (1 << 20);
    return kMakers[large && !dice.one_in(4) ? 0 : dice.below(static_cast<int>(std::size(kMakers)))](dice, base);
}

}  // namespace p2p_test
