#include "pack/kernel_pack.hpp"

#include <algorithm>
#include <bit>

#include "datatype/plan.hpp"

namespace swy::pack {
namespace {

struct Range {
    std::uintptr_t low, high;
};

Range range_of(const Elements& elements) {
    const datatype::Layout& layout = *elements.layout;
    const MPI_Aint last = static_cast<MPI_Aint>(elements.count - 1) * layout.extent;
    const std::uintptr_t data = elements.address + static_cast<std::uintptr_t>(layout.true_lb);
    return {data + static_cast<std::uintptr_t>(std::min<MPI_Aint>(last, 0)),
            data + static_cast<std::uintptr_t>(std::max<MPI_Aint>(last, 0) + layout.true_extent)};
}

// The kernels are listed by the length of their words: 1, 2, 4, 8, 16 bytes.
device::Kernel kernel_for(Direction direction, std::uint32_t word) {
    const device::Kernel first = direction == Direction::kToHost ? device::Kernel::kPack1 : device::Kernel::kUnpack1;
    return static_cast<device::Kernel>(static_cast<int>(first) + std::countr_zero(word));
}

}  // namespace

bool suits_kernel(const Elements& elements, MemoryRanges& ranges, MemoryRange& range) {
    return device::kernels_built() && datatype::suits_kernel(*elements.layout, elements.count) &&
           in_one_place(elements, ranges, range);
}

bool in_one_place(const Elements& elements, MemoryRanges& ranges, MemoryRange& range) {
    const Range touched = range_of(elements);
    range = ranges.at(touched.low);
    return range.device && range.has(touched.low, touched.high);
}

bool in_one_place(const Payload& payload) {
    if (payload.contiguous)
        return payload.device;
    const Elements elements{payload.layout.get(), payload.count, reinterpret_cast<std::uintptr_t>(payload.address)};
    MemoryRanges ranges;
    MemoryRange range;
    return in_one_place(elements, ranges, range) && range.context == payload.where.context;
}

device::Result queue_kernel(device::Stream& stream, Direction direction, const Elements& elements, std::size_t from,
                            std::size_t n, std::byte* packed) {
    if (n == 0)
        return 0;
    const Range range = range_of(elements);
    datatype::PackWork work{};
    work.memory = elements.address;
    work.low = range.low;
    work.high = range.high;
    work.packed = reinterpret_cast<std::uintptr_t>(packed);
    work.from = from;
    work.to = from + n;
    return datatype::for_each_work(*elements.layout, elements.count, work, [&](const datatype::PackWork& ready) {
        return stream.launch(kernel_for(direction, ready.word), words_of(ready),
                             const_cast<datatype::PackWork*>(&ready));
    });
}

}  // namespace swy::pack
