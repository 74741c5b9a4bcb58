#include "datatype/prefix.hpp"

#include <algorithm>
#include <cstring>

namespace swy::datatype {
namespace {

struct Gather {
    std::span<std::byte> to;

    // A run of `length` bytes whose packed place begins at `packed`.
    void run(const std::byte* from, std::size_t length, std::size_t packed) const {
        if (packed < to.size())
            std::memcpy(to.data() + packed, from, std::min(length, to.size() - packed));
    }

    // A block's repetitions: those of an outer dimension come later in the packed order, so what is past the end ends
    // the loop.
    void dims(std::span<const Dim> left, const std::byte* from, std::size_t length, std::size_t packed) const {
        if (left.empty()) {
            run(from, length, packed);
            return;
        }
        const Dim& outer = left.back();
        for (std::size_t i = 0; i < outer.count && packed < to.size(); ++i) {
            dims(left.first(left.size() - 1), from, length, packed);
            from += outer.stride;
            packed += outer.packed_stride;
        }
    }
};

}  // namespace

std::size_t first_bytes(const Layout& layout, const void* address, std::size_t count, std::span<std::byte> to) {
    const std::size_t all = layout.size * count;
    const std::span<std::byte> wanted = to.first(std::min(all, to.size()));
    const Gather gather{wanted};
    for (std::size_t element = 0; element < count && element * layout.size < wanted.size(); ++element) {
        const std::byte* base = static_cast<const std::byte*>(address) + static_cast<MPI_Aint>(element) * layout.extent;
        for (const Block& block : layout.blocks)
            gather.dims(layout.dims_of(block), base + block.offset, block.length, element * layout.size + block.packed);
    }
    return wanted.size();
}

}  // namespace swy::datatype
