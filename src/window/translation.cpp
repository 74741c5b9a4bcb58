// Addresses of device memory at the target of a one-sided call become those of the host memory that stands for it.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "call/depth.hpp"
#include "comm/where.hpp"
#include "datatype/layout.hpp"
#include "error/error.hpp"
#include "real.hpp"
#include "window/state.hpp"
#include "window/window.hpp"

namespace swy::window {
namespace {

// Addresses of another process; the arithmetic is modulo 2^64, as MPI's on displacements.
struct Span {
    std::uint64_t begin, end;
    bool within(const Region& region) const { return begin >= region.base && end <= region.base + region.bytes; }
    bool meets(const Region& region) const { return begin < region.base + region.bytes && region.base < end; }
};

Span span_of(const Target& target, const datatype::Layout& layout) {
    const MPI_Aint last = static_cast<MPI_Aint>(target.count - 1) * layout.extent;
    const auto begin = static_cast<std::uint64_t>(target.disp + layout.true_lb + std::min<MPI_Aint>(last, 0));
    return {begin, begin + static_cast<std::uint64_t>(layout.true_extent + std::max(last, -last))};
}

// Adjacent bytes at the target, and where they lie among the data.
struct Run {
    std::uint64_t packed, address, length;
};

class Runs {
  public:
    Runs(const Target& target, const datatype::Layout& layout, const Regions& regions) : regions_(regions) {
        if (layout.contiguous)
            cut({0, static_cast<std::uint64_t>(target.disp + layout.true_lb),
                 static_cast<std::uint64_t>(target.count) * layout.size});
        for (MPI_Count e = 0; e < target.count && !layout.contiguous; ++e)
            for (const datatype::Block& block : layout.blocks)
                add(layout.dims_of(block),
                    {static_cast<std::uint64_t>(e) * layout.size + block.packed,
                     static_cast<std::uint64_t>(target.disp + static_cast<MPI_Aint>(e) * layout.extent + block.offset),
                     block.length});
        std::sort(runs_.begin(), runs_.end(), [](const Run& a, const Run& b) { return a.packed < b.packed; });
    }

    // The type of all runs, relative to MPI_BOTTOM, of elements of `element` where all runs are whole ones.
    MPI_Datatype type(MPI_Datatype element) const {
        const std::size_t whole = datatype::size_of(element);  // 0 where there are several
        if (whole == 0 || std::any_of(runs_.begin(), runs_.end(), [&](const Run& r) { return r.length % whole != 0; }))
            element = MPI_BYTE;
        const std::size_t size = datatype::size_of(element);
        std::vector<int> lengths;
        std::vector<MPI_Aint> addresses;
        for (const Run& run : runs_) {
            lengths.push_back(static_cast<int>(run.length / size));
            addresses.push_back(static_cast<MPI_Aint>(run.address));
        }
        MPI_Datatype made = MPI_DATATYPE_NULL;
        real::Type_create_hindexed(static_cast<int>(runs_.size()), lengths.data(), addresses.data(), element, &made);
        real::Type_commit(&made);
        return made;
    }

  private:
    void add(std::span<const datatype::Dim> dims, Run run) {
        if (dims.empty())
            return cut(run);
        const datatype::Dim& outer = dims.back();
        for (std::size_t i = 0; i < outer.count; ++i)
            add(dims.first(dims.size() - 1), {run.packed + i * outer.packed_stride,
                                              run.address + i * static_cast<std::uint64_t>(outer.stride), run.length});
    }

    // Cuts a run where attached memory begins and ends, and translates its parts.
    void cut(Run rest) {
        while (rest.length > 0) {
            std::uint64_t length = std::min<std::uint64_t>(rest.length, kLongest), moved = 0;
            for (const Region& region : regions_)
                if (Span{rest.address, rest.address + 1}.within(region)) {
                    length = std::min(length, region.base + region.bytes - rest.address);
                    moved = region.mirror - region.base;
                } else if (region.bytes > 0 && region.base > rest.address) {
                    length = std::min(length, region.base - rest.address);
                }
            runs_.push_back({rest.packed, rest.address + moved, length});
            rest = {rest.packed + length, rest.address + length, rest.length - length};
        }
    }

    static constexpr std::uint64_t kLongest = std::uint64_t{1} << 30;  // a multiple of every element's size, as an int

    const Regions& regions_;
    std::vector<Run> runs_;
};

}  // namespace

Translation::Translation(const Call& call) {
    const std::shared_ptr<State> state = none_special() ? nullptr : find(call.owner.win);
    if (state == nullptr || state->directory == nullptr || !state->directory->has(call.root))
        return;
    const call::Inside guard;
    std::shared_ptr<const Regions> regions;
    if (const int code = state->directory->find(call.root, regions); code != MPI_SUCCESS) {
        code_ = error::raise(call, code,
                             fmt::format("{}: what device memory rank {} has attached to the window cannot be read",
                                         comm::where(call.id, call.owner), call.root));
        return;
    }
    Target& target = *call.target;
    if (regions == nullptr || target.type == MPI_DATATYPE_NULL || target.count <= 0)
        return;
    const auto layout = datatype::layout_of(target.type);
    if (layout->size == 0)
        return;
    const Span span = span_of(target, *layout);
    const auto met = [&span](const Region& region) { return span.meets(region); };
    const auto region = std::find_if(regions->begin(), regions->end(), met);
    if (region == regions->end())
        return;
    if (span.within(*region)) {
        target.disp += static_cast<MPI_Aint>(region->mirror - region->base);
        return;
    }
    made_ = Runs(target, *layout, *regions).type(layout->element);
    target = {0, 1, made_};
}

Translation::~Translation() {
    if (made_ != MPI_DATATYPE_NULL)
        real::Type_free(&made_);  // MPI keeps it until the call is complete
}

}  // namespace swy::window
