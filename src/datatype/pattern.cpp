#include "datatype/pattern.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace swy::datatype {
namespace {

// With more runs than this in one element, overlaps are not searched for: that would cost more memory than the type
// itself.
constexpr std::size_t kMostRunsCompared = std::size_t{1} << 22;

// True where copies of something `covered` bytes long cannot overlap because each repetition steps over all that it
// repeats.
bool steps_over_itself(std::size_t covered, std::span<const Dim> dims) {
    std::vector<std::pair<std::size_t, std::size_t>> steps;  // distance, count
    for (const Dim& dim : dims)
        steps.emplace_back(static_cast<std::size_t>(dim.stride < 0 ? -dim.stride : dim.stride), dim.count);
    std::sort(steps.begin(), steps.end());
    for (const auto& [distance, count] : steps) {
        if (distance < covered)
            return false;
        covered += distance * (count - 1);
    }
    return true;
}

using Range = std::pair<MPI_Aint, MPI_Aint>;  // from, to

bool disjoint(std::vector<Range>& ranges) {
    std::sort(ranges.begin(), ranges.end());
    for (std::size_t i = 1; i < ranges.size(); ++i)
        if (ranges[i].first < ranges[i - 1].second)
            return false;
    return true;
}

// The proof that is possible for nearly all types without looking at every run: blocks that are repeated together (the
// members of a structure in an array of it) are apart within one copy, the copies step over each other, and these
// groups are apart.
bool plainly_disjoint(const Pattern& pattern) {
    std::vector<Range> groups;
    for (std::size_t i = 0; i < pattern.blocks.size();) {
        const Block& first = pattern.blocks[i];
        std::vector<Range> members;
        Hull body, all;
        const std::span<const Dim> dims{pattern.dims.data() + first.first_dim, first.dims};
        for (; i < pattern.blocks.size() && pattern.blocks[i].first_dim == first.first_dim &&
               pattern.blocks[i].dims == first.dims;
             ++i) {
            const Block& block = pattern.blocks[i];
            members.emplace_back(block.offset, block.offset + static_cast<MPI_Aint>(block.length));
            body.add(members.back().first, members.back().second);
            const Hull hull = hull_of(block, dims);
            all.add(hull.low, hull.high);
        }
        if (!disjoint(members) || !steps_over_itself(static_cast<std::size_t>(body.high - body.low), dims))
            return false;
        groups.emplace_back(all.low, all.high);
    }
    return disjoint(groups);
}

void expand(const Block& block, std::span<const Dim> dims, MPI_Aint at, std::vector<Range>& runs) {
    if (dims.empty()) {
        runs.emplace_back(at, at + static_cast<MPI_Aint>(block.length));
        return;
    }
    const Dim& outer = dims.back();
    for (std::size_t i = 0; i < outer.count; ++i)
        expand(block, dims.first(dims.size() - 1), at + static_cast<MPI_Aint>(i) * outer.stride, runs);
}

}  // namespace

void Hull::add(MPI_Aint from, MPI_Aint to) {
    low = empty ? from : std::min(low, from);
    high = empty ? to : std::max(high, to);
    empty = false;
}

Hull hull_of(const Block& block, std::span<const Dim> dims) {
    MPI_Aint low = block.offset, high = block.offset;
    for (const Dim& dim : dims) {
        const MPI_Aint reach = static_cast<MPI_Aint>(dim.count - 1) * dim.stride;
        (reach < 0 ? low : high) += reach;
    }
    Hull hull;
    hull.add(low, high + static_cast<MPI_Aint>(block.length));
    return hull;
}

Pattern Pattern::run(MPI_Aint offset, std::size_t length) {
    Pattern pattern;
    pattern.size = length;
    if (length > 0)
        pattern.blocks.push_back({offset, length, 0});
    return pattern;
}

// Stores dims. Copies of one child are appended over and over: its dims are stored once.
std::uint32_t Pattern::adopt(const std::vector<Dim>& others) {
    if (others.empty())
        return 0;
    if (dims.size() < others.size() ||
        !std::equal(others.begin(), others.end(), dims.end() - static_cast<std::ptrdiff_t>(others.size())))
        dims.insert(dims.end(), others.begin(), others.end());
    return static_cast<std::uint32_t>(dims.size() - others.size());
}

void Pattern::append(const Pattern& other, MPI_Aint at) {
    const std::uint32_t base = adopt(other.dims);
    for (const Block& block : other.blocks) {
        const MPI_Aint offset = block.offset + at;
        const std::size_t packed = block.packed + size;
        if (!blocks.empty() && block.dims == 0 && blocks.back().dims == 0) {
            Block& last = blocks.back();
            const auto length = static_cast<MPI_Aint>(last.length);
            if (last.offset + length == offset && last.packed + last.length == packed) {
                last.length += block.length;
                continue;
            }
        }
        blocks.push_back({offset, block.length, packed, block.dims > 0 ? base + block.first_dim : 0, block.dims});
    }
    size += other.size;
}

void Pattern::repeat(std::size_t count, MPI_Aint stride) {
    if (count == 0 || blocks.empty()) {
        *this = Pattern{};
        return;
    }
    if (count == 1)
        return;
    if (blocks.size() == 1 && blocks[0].dims == 0 && static_cast<MPI_Aint>(blocks[0].length) == stride) {
        blocks[0].length *= count;
        size *= count;
        return;
    }
    const Dim loop{count, stride, size};
    std::vector<Dim> grown;
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::pair<std::uint32_t, std::uint32_t>> known;
    for (Block& block : blocks) {
        const auto [place, fresh] = known.try_emplace({block.first_dim, block.dims});
        if (fresh) {
            const auto first = static_cast<std::uint32_t>(grown.size());
            const auto old = dims.begin() + block.first_dim;
            grown.insert(grown.end(), old, old + block.dims);
            Dim* outer = block.dims > 0 ? &grown.back() : nullptr;
            // The copies continue where the outermost repetition ends: together they are one longer repetition.
            if (outer && outer->stride * static_cast<MPI_Aint>(outer->count) == stride &&
                outer->packed_stride * outer->count == size)
                outer->count *= count;
            else
                grown.push_back(loop);
            place->second = {first, static_cast<std::uint32_t>(grown.size()) - first};
        }
        block.first_dim = place->second.first;
        block.dims = place->second.second;
    }
    dims = std::move(grown);
    size *= count;
}

Hull Pattern::hull() const {
    Hull all;
    for (const Block& block : blocks) {
        const Hull one = hull_of(block, {dims.data() + block.first_dim, block.dims});
        all.add(one.low, one.high);
    }
    return all;
}

bool Pattern::overlapping() const {
    if (plainly_disjoint(*this))
        return false;
    std::size_t count = 0;
    for (const Block& block : blocks) {
        std::size_t runs = 1;
        for (const Dim& dim : std::span{dims.data() + block.first_dim, block.dims})
            runs *= dim.count;
        count += runs;
        if (count > kMostRunsCompared)
            return false;
    }
    std::vector<Range> runs;
    runs.reserve(count);
    for (const Block& block : blocks)
        expand(block, {dims.data() + block.first_dim, block.dims}, block.offset, runs);
    return !disjoint(runs);
}

}  // namespace swy::datatype
