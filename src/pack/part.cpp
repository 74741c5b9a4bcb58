#include "pack/part.hpp"

#include <algorithm>
#include <utility>

namespace swy::pack {
namespace {

using datatype::Block;
using datatype::Dim;
using datatype::Layout;

// Bytes of the packed form from the first byte of a block's first run to the last byte of its last one.
std::size_t packed_span(const Block& block, std::span<const Dim> dims) {
    std::size_t span = block.length;
    for (const Dim& dim : dims)
        span += (dim.count - 1) * dim.packed_stride;
    return span;
}

// The copy of a block that a repetition puts at `index`.
Block copy_of(const Block& block, const Dim& dim, std::size_t index) {
    Block copy = block;
    copy.offset += static_cast<MPI_Aint>(index) * dim.stride;
    copy.packed += index * dim.packed_stride;
    return copy;
}

}  // namespace

Parts::Parts(std::shared_ptr<const Layout> layout, std::size_t count) : layout_(std::move(layout)), count_(count) {
    reach_.reserve(layout_->blocks.size());
    std::size_t reach = 0;
    for (const Block& block : layout_->blocks)
        reach_.push_back(reach = std::max(reach, block.packed + packed_span(block, layout_->dims_of(block))));
}

const Layout& Parts::cut(std::size_t from, std::size_t n) {
    part_.blocks.clear();
    part_.dims.clear();
    part_.size = n;
    from_ = from;
    to_ = from + n;
    const std::size_t size = layout_->size;
    if (n == 0 || size == 0)
        return part_;
    if (layout_->contiguous) {
        part_.blocks.push_back({layout_->true_lb + static_cast<MPI_Aint>(from), n, 0});
        return part_;
    }
    const std::size_t first_whole = (from + size - 1) / size, whole_end = to_ / size;
    if (first_whole > whole_end) {  // the part lies within one element
        cut_element(whole_end);
        return part_;
    }
    if (first_whole * size != from)
        cut_element(first_whole - 1);
    if (whole_end > first_whole)
        add_elements(first_whole, whole_end - first_whole);
    if (whole_end * size != to_)
        cut_element(whole_end);
    return part_;
}

void Parts::add_elements(std::size_t first, std::size_t count) {
    const Dim elements{count_, layout_->extent, layout_->size};
    for (const Block& block : layout_->blocks)
        add(copy_of(block, elements, first), layout_->dims_of(block), count, elements);
}

// Adds what the part has of one element. Blocks are in the order in which their first runs are packed.
void Parts::cut_element(std::size_t element) {
    const Dim elements{count_, layout_->extent, layout_->size};
    const std::size_t begin = element * layout_->size;
    const std::size_t skip = from_ > begin ? from_ - begin : 0;
    const auto first = std::upper_bound(reach_.begin(), reach_.end(), skip) - reach_.begin();
    for (auto i = static_cast<std::size_t>(first); i < layout_->blocks.size(); ++i) {
        const Block& block = layout_->blocks[i];
        if (begin + block.packed >= to_)
            return;
        cut_block(copy_of(block, elements, element), layout_->dims_of(block));
    }
}

// Adds what the part has of one block. A repetition is packed copy by copy (`packed_stride` is the packed size of all
// that is repeated together): the copies that are wholly in the part are adjacent, and on either side at most one is in
// it with a piece.
void Parts::cut_block(const Block& block, std::span<const Dim> dims) {
    if (dims.empty()) {
        const std::size_t from = std::max(from_, block.packed), to = std::min(to_, block.packed + block.length);
        if (from < to)
            part_.blocks.push_back(
                {block.offset + static_cast<MPI_Aint>(from - block.packed), to - from, from - from_});
        return;
    }
    const Dim& outer = dims.back();
    const std::span<const Dim> inner = dims.first(dims.size() - 1);
    const std::size_t span = packed_span(block, inner), step = outer.packed_stride;
    if (block.packed >= to_)
        return;
    const std::size_t first = from_ < block.packed + span ? 0 : (from_ - block.packed - span) / step + 1;
    const std::size_t end = std::min(outer.count, (to_ - block.packed - 1) / step + 1);
    if (first >= end)
        return;
    const std::size_t whole = first + (block.packed + first * step < from_ ? 1 : 0);
    const std::size_t whole_end = end - (block.packed + (end - 1) * step + span > to_ ? 1 : 0);
    if (first < whole)
        cut_block(copy_of(block, outer, first), inner);
    if (whole < whole_end)
        add(copy_of(block, outer, whole), inner, whole_end - whole, outer);
    if (whole_end < end && end > whole)
        cut_block(copy_of(block, outer, end - 1), inner);
}

// Adds `copies` copies of a block, the first of which is given.
void Parts::add(const Block& block, std::span<const Dim> dims, std::size_t copies, const Dim& outer) {
    Block added = block;
    added.packed -= from_;
    added.first_dim = static_cast<std::uint32_t>(part_.dims.size());
    part_.dims.insert(part_.dims.end(), dims.begin(), dims.end());
    if (copies > 1)
        part_.dims.push_back({copies, outer.stride, outer.packed_stride});
    added.dims = static_cast<std::uint32_t>(part_.dims.size()) - added.first_dim;
    part_.blocks.push_back(added);
}

}  // namespace swy::pack
