#include "datatype/prefix.hpp"

#include <algorithm>
#include <cstring>

namespace swy::datatype {
namespace {

// Walks over the first `bytes` packed bytes: calls run(address, length, packed offset) for each stretch of them.
template <typename Address, typename Run>
class Prefix {
  public:
    Prefix(std::size_t bytes, Run run) : bytes_(bytes), run_(run) {}

    void elements(const Layout& layout, Address address, std::size_t count) const {
        for (std::size_t element = 0; element < count && element * layout.size < bytes_; ++element) {
            const Address base = address + static_cast<MPI_Aint>(element) * layout.extent;
            for (const Block& block : layout.blocks)
                dims(layout.dims_of(block), base + block.offset, block.length, element * layout.size + block.packed);
        }
    }

  private:
    // Walks over a block's repetitions. Those of an outer dimension come later in the packed order, so the first one
    // past the end ends the loop.
    void dims(std::span<const Dim> left, Address from, std::size_t length, std::size_t packed) const {
        if (left.empty()) {
            if (packed < bytes_)
                run_(from, std::min(length, bytes_ - packed), packed);
            return;
        }
        const Dim& outer = left.back();
        for (std::size_t i = 0; i < outer.count && packed < bytes_; ++i) {
            dims(left.first(left.size() - 1), from, length, packed);
            from += outer.stride;
            packed += outer.packed_stride;
        }
    }

    std::size_t bytes_;
    Run run_;
};

template <typename Address, typename Run>
void for_first_bytes(const Layout& layout, Address address, std::size_t count, std::size_t bytes, Run run) {
    Prefix<Address, Run>(bytes, run).elements(layout, address, count);
}

}  // namespace

std::size_t first_bytes(const Layout& layout, const void* address, std::size_t count, std::span<std::byte> to) {
    const std::size_t wanted = std::min(layout.size * count, to.size());
    for_first_bytes(layout, static_cast<const std::byte*>(address), count, wanted,
                    [to](const std::byte* from, std::size_t length, std::size_t packed) {
                        std::memcpy(to.data() + packed, from, length);
                    });
    return wanted;
}

void set_first_bytes(const Layout& layout, void* address, std::size_t count, std::span<const std::byte> from) {
    for_first_bytes(layout, static_cast<std::byte*>(address), count, from.size(),
                    [from](std::byte* to, std::size_t length, std::size_t packed) {
                        std::memcpy(to, from.data() + packed, length);
                    });
}

void clear_first_bytes(const Layout& layout, void* address, std::size_t count, std::size_t bytes) {
    for_first_bytes(layout, static_cast<std::byte*>(address), count, bytes,
                    [](std::byte* at, std::size_t length, std::size_t) { std::memset(at, 0, length); });
}

}  // namespace swy::datatype
