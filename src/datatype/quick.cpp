#include "datatype/quick.hpp"

#include "datatype/element.hpp"

namespace swy::datatype {

constinit std::array<std::atomic<std::uint64_t>, kQuickSizes> quick_sizes{};
constinit std::array<std::atomic<std::uintptr_t>, kQuickSizes> quick_handles{};

std::size_t look_up_predefined_size(MPI_Datatype type) {
    const auto handle = static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(type));
    const std::uint64_t size = element_of(type).bytes;
    if (size != 0 && handle >> 48 == 0) {
        quick_sizes[quick_slot(handle)].store(handle << 16 | size, std::memory_order_relaxed);
        quick_handles[quick_slot(handle)].store(handle, std::memory_order_relaxed);
    }
    return size;
}

}  // namespace swy::datatype
