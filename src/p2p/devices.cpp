#include "p2p/devices.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <vector>

#include "call/hash.hpp"

namespace swy::p2p::pair_comms {
namespace {

using List = std::array<std::uint64_t, kMostDevices>;  // 0: none
static_assert(sizeof(List) == sizeof(nccl::UniqueId), "goes in its place");

constexpr std::uint64_t kOtherBasis = 0x84222325cbf29ce4u;

}  // namespace

const nccl::Member& device_here(int ordinal) {
    static auto* members = new std::vector<nccl::Member>;  // not destroyed at exit
    const auto at = static_cast<std::size_t>(ordinal);
    while (members->size() <= at)
        members->push_back(nccl::member_here(static_cast<int>(members->size())));
    return (*members)[at];
}

Gpu name_of(Devices devices) {
    if (devices.size() == 1)
        return device_here(devices.front().ordinal).gpu;
    std::array<std::uint64_t, 2> sums{call::kFnvBasis, kOtherBasis};
    for (const device::Location& where : devices)
        for (std::uint64_t& sum : sums)
            sum = call::fnv1a(device_here(where.ordinal).gpu, sum);
    Gpu name;
    std::memcpy(name.data(), sums.data(), name.size());
    return name;
}

nccl::UniqueId list_of(std::span<const int> ordinals) {
    List list{};
    for (std::size_t i = 0; i < ordinals.size(); ++i)
        list[i] = call::fnv1a(device_here(ordinals[i]).gpu) | 1;
    nccl::UniqueId bytes;
    std::memcpy(bytes.data(), list.data(), bytes.size());
    return bytes;
}

bool overlap(const nccl::UniqueId& one, const nccl::UniqueId& other) {
    List mine, theirs;
    std::memcpy(mine.data(), one.data(), one.size());
    std::memcpy(theirs.data(), other.data(), other.size());
    return std::any_of(mine.begin(), mine.end(), [&](std::uint64_t gpu) {
        return gpu != 0 && std::find(theirs.begin(), theirs.end(), gpu) != theirs.end();
    });
}

bool same(std::span<const int> ordinals, Devices devices) {
    return std::equal(ordinals.begin(), ordinals.end(), devices.begin(), devices.end(),
                      [](int ordinal, const device::Location& where) { return ordinal == where.ordinal; });
}

}  // namespace swy::p2p::pair_comms
