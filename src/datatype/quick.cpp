#include "datatype/quick.hpp"

#include "datatype/element.hpp"
#include "datatype/extension.hpp"
#include "datatype/predefined.hpp"
#include "real.hpp"

namespace swy::datatype {

constinit std::array<std::atomic<std::uint64_t>, kQuickSizes> quick_sizes{};
constinit std::array<std::atomic<std::uintptr_t>, kQuickSizes> quick_handles{};

std::size_t look_up_predefined_size(MPI_Datatype type) {
    if (const Predefined* known = find_predefined(type))
        return remember_predefined(type, known->element.bytes);
    ElementOf extension;
    if (extensions_in_use.load(std::memory_order_relaxed) && find_extension(type, extension))
        return remember_predefined(type, extension.bytes);
    return 0;
}

std::size_t remember_predefined(MPI_Datatype type, std::size_t size) {
    const auto handle = static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(type));
    if (size == 0 || handle >> 48 != 0)
        return size;
    quick_sizes[quick_slot(handle)].store(handle << 16 | size, std::memory_order_relaxed);
    MPI_Aint lb = 0;
    MPI_Aint extent = 0;
    if (real::Type_get_extent(type, &lb, &extent) == MPI_SUCCESS && static_cast<std::size_t>(extent) == size)
        quick_handles[quick_slot(handle)].store(handle, std::memory_order_relaxed);
    return size;
}

}  // namespace swy::datatype
