#include "datatype/decode.hpp"

#include <algorithm>

#include "datatype/element.hpp"
#include "datatype/extension.hpp"
#include "datatype/plan.hpp"
#include "real.hpp"

namespace swy::datatype {

namespace {

// MPI 1's MPI_TYPE_HVECTOR, HINDEXED and STRUCT of Fortran: mpi.h no longer names these combiners, but their numbers
// remain (they precede the C ones).
constexpr int kHvectorInteger = MPI_COMBINER_HVECTOR - 1;
constexpr int kHindexedInteger = MPI_COMBINER_HINDEXED - 1;
constexpr int kStructInteger = MPI_COMBINER_STRUCT - 1;

bool is_f90(int combiner) {
    return combiner == MPI_COMBINER_F90_REAL || combiner == MPI_COMBINER_F90_COMPLEX ||
           combiner == MPI_COMBINER_F90_INTEGER;
}

std::size_t times(int count) {
    return count > 0 ? static_cast<std::size_t>(count) : 0;
}

Pattern pattern_of(const Layout& layout) {
    Pattern pattern;
    pattern.size = layout.size;
    pattern.blocks = layout.blocks;
    pattern.dims = layout.dims;
    return pattern;
}

Pattern copies(const Pattern& element, std::size_t count, MPI_Aint stride) {
    Pattern pattern = element;
    pattern.repeat(count, stride);
    return pattern;
}

// The vector constructors. Open MPI 4.1.4 takes a stride of exactly -1 byte for "one extent", as its true extent then
// shows (opal_datatype_add has that as a default). The layout follows what MPI reads and writes.
Pattern strided(const Pattern& element, MPI_Aint extent, std::size_t count, std::size_t length, MPI_Aint stride,
                const Layout& said) {
    const Pattern block = copies(element, length, extent);
    Pattern all = copies(block, count, stride);
    const Hull hull = all.hull();
    if (stride == -1 && !hull.empty && (hull.low != said.true_lb || hull.high - hull.low != said.true_extent))
        return copies(block, count, static_cast<MPI_Aint>(length) * extent);
    return all;
}

// The blocks of the indexed constructors. Blocks of one length at equal distances, however the program has specified
// them, become one repetition.
template <typename LengthOf, typename DisplacementOf>
Pattern indexed(const Pattern& element, MPI_Aint extent, std::size_t count, LengthOf length, DisplacementOf at) {
    Pattern all;
    for (std::size_t i = 0; i < count;) {
        std::size_t next = i + 1;
        MPI_Aint stride = 0;
        if (next < count && length(next) == length(i)) {
            stride = at(next) - at(i);
            while (next < count && length(next) == length(i) && at(next) - at(next - 1) == stride)
                ++next;
        }
        Pattern block = copies(element, times(length(i)), extent);
        block.repeat(next - i, stride);
        all.append(block, at(i));
        i = next;
    }
    return all;
}

Pattern structure(const Contents& contents) {
    const std::size_t count = times(contents.ints.at(0));
    const bool integers = contents.addresses.empty();
    Pattern all;
    MPI_Datatype last = MPI_DATATYPE_NULL;
    std::shared_ptr<const Layout> member;
    Pattern element;
    for (std::size_t i = 0; i < count; ++i) {
        if (contents.types[i] != last) {
            last = contents.types[i];
            member = layout_of(last);
            element = pattern_of(*member);
        }
        const MPI_Aint at = integers ? contents.ints[1 + count + i] : contents.addresses[i];
        all.append(copies(element, times(contents.ints[1 + i]), member->extent), at);
    }
    return all;
}

// `said`: extent and bounds that MPI gives for the type.
Pattern derived(const Contents& contents, const Layout& said) {
    if (contents.combiner == MPI_COMBINER_STRUCT || contents.combiner == kStructInteger)
        return structure(contents);
    const std::shared_ptr<const Layout> old = layout_of(contents.types.at(0));
    const Pattern element = pattern_of(*old);
    const MPI_Aint extent = old->extent;
    const std::vector<int>& ints = contents.ints;
    const std::vector<MPI_Aint>& addresses = contents.addresses;
    const std::size_t count = ints.empty() ? 0 : times(ints[0]);
    switch (contents.combiner) {
        case MPI_COMBINER_DUP:
        case MPI_COMBINER_RESIZED:
            return element;
        case MPI_COMBINER_CONTIGUOUS:
            return copies(element, count, extent);
        case MPI_COMBINER_VECTOR:
            return strided(element, extent, count, times(ints.at(1)), ints.at(2) * extent, said);
        case MPI_COMBINER_HVECTOR:
        case kHvectorInteger:
            return strided(element, extent, count, times(ints.at(1)), addresses.empty() ? ints.at(2) : addresses[0],
                           said);
        case MPI_COMBINER_INDEXED:
            return indexed(
                element, extent, count, [&](std::size_t i) { return ints[1 + i]; },
                [&](std::size_t i) { return ints[1 + count + i] * extent; });
        case MPI_COMBINER_HINDEXED:
        case kHindexedInteger:
            return indexed(
                element, extent, count, [&](std::size_t i) { return ints[1 + i]; },
                [&](std::size_t i) { return addresses.empty() ? MPI_Aint{ints[1 + count + i]} : addresses[i]; });
        case MPI_COMBINER_INDEXED_BLOCK:
            return indexed(
                element, extent, count, [&](std::size_t) { return ints[1]; },
                [&](std::size_t i) { return ints[2 + i] * extent; });
        case MPI_COMBINER_HINDEXED_BLOCK:
            return indexed(
                element, extent, count, [&](std::size_t) { return ints[1]; },
                [&](std::size_t i) { return addresses[i]; });
        case MPI_COMBINER_SUBARRAY:
            return subarray(ints, element, extent);
        case MPI_COMBINER_DARRAY:
            return darray(ints, element, extent);
        default:
            return element;  // no other constructor makes a type from types (MPI 4.0 table 5.1)
    }
}

// A named type's data: one run, except for the pair types whose second member is aligned behind a gap.
Pattern named(MPI_Datatype type, std::size_t size, MPI_Aint true_lb, MPI_Aint true_extent) {
    if (type == MPI_SHORT_INT && true_extent > static_cast<MPI_Aint>(size)) {
        struct Pair {
            short first;
            int second;
        };
        Pattern pair = Pattern::run(offsetof(Pair, first), sizeof(short));
        pair.append(Pattern::run(0, sizeof(int)), offsetof(Pair, second));
        return pair;
    }
    return Pattern::run(true_lb, size);
}

// The basic type that MPI_Type_create_f90_* stand for, by class and size.
MPI_Datatype basic_of_f90(int combiner, std::size_t size) {
    switch (combiner) {
        case MPI_COMBINER_F90_REAL:
            return size == sizeof(float) ? MPI_FLOAT : size == sizeof(double) ? MPI_DOUBLE : MPI_LONG_DOUBLE;
        case MPI_COMBINER_F90_COMPLEX:
            return size == 2 * sizeof(float)    ? MPI_C_FLOAT_COMPLEX
                   : size == 2 * sizeof(double) ? MPI_C_DOUBLE_COMPLEX
                                                : MPI_C_LONG_DOUBLE_COMPLEX;
        default:
            return size == 1   ? MPI_INT8_T
                   : size == 2 ? MPI_INT16_T
                   : size == 4 ? MPI_INT32_T
                   : size == 8 ? MPI_INT64_T
                               : MPI_DATATYPE_NULL;
    }
}

// The one predefined type of all members that have data, or MPI_DATATYPE_NULL.
MPI_Datatype common_element(const Contents& contents) {
    MPI_Datatype common = MPI_DATATYPE_NULL;
    const bool structure = contents.combiner == MPI_COMBINER_STRUCT || contents.combiner == kStructInteger;
    for (std::size_t i = 0; i < contents.types.size(); ++i) {
        const std::shared_ptr<const Layout> member = layout_of(contents.types[i]);
        if (member->size == 0 || (structure && contents.ints[1 + i] <= 0))
            continue;
        if (member->element == MPI_DATATYPE_NULL || (common != MPI_DATATYPE_NULL && common != member->element))
            return MPI_DATATYPE_NULL;
        common = member->element;
    }
    return common;
}

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

Contents::Contents(MPI_Datatype type) {
    int integers = 0, displacements = 0, datatypes = 0;
    real::Type_get_envelope(type, &integers, &displacements, &datatypes, &combiner);
    if (combiner == MPI_COMBINER_NAMED)
        return;  // MPI_Type_get_contents is an error for it
    ints.resize(times(integers));
    addresses.resize(times(displacements));
    std::vector<MPI_Datatype> handles(times(datatypes), MPI_DATATYPE_NULL);
    types.reserve(handles.size());  // before MPI makes handles: from here on nothing throws
    real::Type_get_contents(type, integers, displacements, datatypes, ints.data(), addresses.data(), handles.data());
    types = std::move(handles);
}

Contents::~Contents() {
    for (MPI_Datatype& type : types) {
        int integers = 0, displacements = 0, datatypes = 0, made_by = MPI_COMBINER_NAMED;
        if (type == MPI_DATATYPE_NULL)
            continue;
        real::Type_get_envelope(type, &integers, &displacements, &datatypes, &made_by);
        if (made_by != MPI_COMBINER_NAMED && !is_f90(made_by))  // predefined: not to be freed
            real::Type_free(&type);
    }
}

Layout decode(MPI_Datatype type) {
    Layout layout;
    MPI_Count size = 0;
    real::Type_size_x(type, &size);
    real::Type_get_extent(type, &layout.lb, &layout.extent);
    real::Type_get_true_extent(type, &layout.true_lb, &layout.true_extent);
    const Contents contents(type);
    Pattern pattern;
    if (contents.combiner == MPI_COMBINER_NAMED) {
        layout.predefined = true;
        layout.element = size > 0 ? type : MPI_DATATYPE_NULL;
        pattern = named(type, static_cast<std::size_t>(size), layout.true_lb, layout.true_extent);
    } else if (ElementOf ours; find_extension(type, ours)) {
        layout.predefined = true;
        layout.element = type;
        pattern = Pattern::run(0, static_cast<std::size_t>(size));
    } else if (is_f90(contents.combiner)) {
        layout.predefined = true;
        layout.element = basic_of_f90(contents.combiner, static_cast<std::size_t>(size));
        pattern = Pattern::run(0, static_cast<std::size_t>(size));
    } else {
        pattern = derived(contents, layout);
        layout.element = pattern.size > 0 ? common_element(contents) : MPI_DATATYPE_NULL;
    }
    const Hull hull = pattern.hull();
    layout.true_lb = hull.empty ? 0 : hull.low;
    layout.true_extent = hull.empty ? 0 : hull.high - hull.low;
    layout.overlapping = pattern.overlapping();
    layout.size = pattern.size;
    layout.contiguous = pattern.blocks.size() == 1 && pattern.blocks[0].dims == 0 &&
                        layout.extent == static_cast<MPI_Aint>(layout.size);
    layout.blocks = std::move(pattern.blocks);
    layout.dims = std::move(pattern.dims);
    layout.blocks.shrink_to_fit();
    layout.dims.shrink_to_fit();
    layout.plan = plan_of(layout);
    return layout;
}

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
