#include "pack/pieces.hpp"

#include <algorithm>

namespace swy::pack {
namespace {

using datatype::Block;
using datatype::Dim;
using datatype::Layout;

constexpr std::uintptr_t kPage = 4096;  // a page of memory has one location

// Cuts sheets into pieces.
class Cutter {
  public:
    Cutter(const Segment& segment, bool absolute, MemoryRanges& ranges, Visitor& visitor)
        : segment_(segment), absolute_(absolute), ranges_(ranges), visitor_(visitor) {}

    device::Result cut(const Sheet& sheet) {
        const MemoryRange first = ranges_.at(sheet.address);
        if (first.has(sheet.low(), sheet.high()))
            return visitor_.visit(segment_, sheet, first);
        if (sheet.rows == 1)
            return cut_row(sheet, first);
        const bool looked_up = first.device && first.begin != first.end;  // and the sheet leaves that allocation
        if (!absolute_ && !looked_up && ranges_.at(sheet.row(sheet.rows - 1)).like(first))
            return visitor_.visit(segment_, sheet, first);
        for (std::size_t i = 0; i < sheet.rows; ++i) {
            const Sheet row{sheet.row(i), sheet.width, 1, 0, sheet.packed + i * sheet.packed_stride, 0};
            if (const device::Result result = cut_row(row, ranges_.at(row.address)); result != 0)
                return result;
        }
        return 0;
    }

  private:
    // Cuts one run of bytes, which may continue from one allocation into the next: runs that touch have been merged.
    device::Result cut_row(Sheet row, MemoryRange range) {
        for (;;) {
            std::size_t here = row.width;
            if (range.device && range.begin != range.end)
                here = std::min<std::uintptr_t>(here, range.end - row.address);
            else if (absolute_ && !range.device && !range.has(row.address, row.address + row.width))
                here = host_part(row);
            Sheet part = row;
            part.width = here;
            if (const device::Result result = visitor_.visit(segment_, part, range); result != 0 || here == row.width)
                return result;
            row.address += here;
            row.packed += here;
            row.width -= here;
            range = ranges_.at(row.address);
        }
    }

    // How much of a run that begins in host memory lies there, when it may end on a device.
    std::size_t host_part(const Sheet& row) {
        const MemoryRange last = ranges_.at(row.address + row.width - 1);
        return last.device && last.begin > row.address ? last.begin - row.address : row.width;
    }

    const Segment& segment_;
    const bool absolute_;
    MemoryRanges& ranges_;
    Visitor& visitor_;
};

// Tells whether one two-dimensional copy can take the rows: they do not overlap, in memory or packed.
bool makes_rows(const Dim& dim, std::size_t width) {
    const auto distance = static_cast<std::size_t>(dim.stride < 0 ? -dim.stride : dim.stride);
    return dim.count > 1 && distance >= width && dim.packed_stride >= width;
}

// Cuts all runs of one block in `count` elements, as sheets along the longest repetition.
device::Result cut_block(Cutter& cutter, const Block& block, std::vector<Dim>& loops, std::uintptr_t base) {
    auto rows = loops.end();
    for (auto loop = loops.begin(); loop != loops.end(); ++loop)
        if (makes_rows(*loop, block.length) && (rows == loops.end() || loop->count > rows->count))
            rows = loop;
    Dim row{1, 0, 0};
    if (rows != loops.end()) {
        row = *rows;
        loops.erase(rows);
    }
    std::vector<std::size_t> at(loops.size(), 0);
    for (;;) {
        Sheet sheet{base + static_cast<std::uintptr_t>(block.offset),
                    block.length,
                    row.count,
                    row.stride,
                    block.packed,
                    row.packed_stride};
        for (std::size_t d = 0; d < loops.size(); ++d) {
            sheet.address += at[d] * static_cast<std::uintptr_t>(loops[d].stride);
            sheet.packed += at[d] * loops[d].packed_stride;
        }
        if (const device::Result result = cutter.cut(sheet); result != 0)
            return result;
        std::size_t d = 0;
        while (d < loops.size() && ++at[d] == loops[d].count)
            at[d++] = 0;
        if (d == loops.size())
            return 0;
    }
}

}  // namespace

MemoryRange MemoryRanges::at(std::uintptr_t address) {
    if (device_.has(address, address + 1))
        return device_;
    if (host_.has(address, address + 1))
        return host_;
    const device::Location location = device::locate(reinterpret_cast<const void*>(address));
    MemoryRange range{location.on_device(), location.ordinal, location.context, location.begin, location.end};
    if (range.device)
        return device_ = range;
    range.ordinal = -1;
    range.context = nullptr;
    if (!range.has(address, address + 1)) {
        range.begin = address / kPage * kPage;
        range.end = range.begin + kPage;
    }
    return host_ = range;
}

void MemoryRanges::know(const device::Location& location) {
    if (location.on_device())
        device_ = {true, location.ordinal, location.context, location.begin, location.end};
}

device::Result walk(const std::vector<Segment>& segments, const void* address, MemoryRanges& ranges, Visitor& visitor) {
    std::vector<Dim> loops;
    for (const Segment& segment : segments) {
        Cutter cutter(segment, address == MPI_BOTTOM, ranges, visitor);
        const Layout& layout = *segment.layout;
        const std::uintptr_t base =
            reinterpret_cast<std::uintptr_t>(address) + static_cast<std::uintptr_t>(segment.offset);
        if (layout.contiguous) {
            const Sheet all{
                base + static_cast<std::uintptr_t>(layout.true_lb), segment.count * layout.size, 1, 0, 0, 0};
            if (const device::Result result = cutter.cut(all); result != 0)
                return result;
            continue;
        }
        for (const Block& block : layout.blocks) {
            const auto dims = layout.dims_of(block);
            loops.assign(dims.begin(), dims.end());
            if (segment.count > 1)
                loops.push_back({segment.count, layout.extent, layout.size});
            if (const device::Result result = cut_block(cutter, block, loops, base); result != 0)
                return result;
        }
    }
    return 0;
}

}  // namespace swy::pack
