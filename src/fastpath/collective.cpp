#include "fastpath/collective.hpp"

namespace swy::fastpath {
namespace {

constexpr std::uintptr_t kFree = 0, kBeingWritten = 1;

void remember(MPI_Datatype type, std::size_t size) {
    const auto handle = reinterpret_cast<std::uintptr_t>(type);
    SmallCount& place = small_counts[datatype::quick_slot(handle)];
    std::uintptr_t expected = kFree;
    if (call::merged_communicators.load() != 0 || place.type.load(std::memory_order_relaxed) != kFree ||
        !place.type.compare_exchange_strong(expected, kBeingWritten))
        return;
    // Where the job needs no agreement, size does not matter: no valid count is too large.
    place.below.store(call::job_agrees ? call::threshold / size + (call::threshold % size != 0) : SIZE_MAX,
                      std::memory_order_relaxed);
    place.type.store(handle);
    if (call::merged_communicators.load() != 0)  // since the first look
        place.type.store(kFree);
}

}  // namespace

constinit std::array<SmallCount, datatype::kQuickSizes> small_counts{};

bool small(MPI_Count count, MPI_Datatype type) {
    const std::size_t size = datatype::predefined_size(type);
    if (size != 0)
        remember(type, size);
    return small(count, size);
}

void forget_small_counts() {
    for (SmallCount& place : small_counts) {
        place.type.store(kFree);
        place.below.store(0);  // a null pointer is no type, and small_below() finds it here
    }
}

}  // namespace swy::fastpath
