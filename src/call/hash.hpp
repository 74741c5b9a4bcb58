// The hashes of the library: SplitMix64 for names and checks that processes compare, FNV-1a for texts and lists.
#pragma once

#include <cstdint>
#include <type_traits>

namespace swy::call {

// A factor, or a step, that spreads small differences over all bits.
inline constexpr std::uint64_t kGoldenRatio = 0x9e3779b97f4a7c15u;

// The finaliser of SplitMix64.
constexpr std::uint64_t finalise(std::uint64_t value) {
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9u;
    value = (value ^ (value >> 27)) * 0x94d049bb133111ebu;
    return value ^ (value >> 31);
}

// One step of SplitMix64, and a chain of such steps over several values.
constexpr std::uint64_t mix(std::uint64_t value) {
    return finalise(value + kGoldenRatio);
}
constexpr std::uint64_t mix(std::uint64_t hash, std::uint64_t value) {
    return mix(hash + value);
}

// FNV-1a over a range of bytes, characters or unsigned numbers; `hash` is the result for what lies before it.
inline constexpr std::uint64_t kFnvBasis = 0xcbf29ce484222325u;
template <typename Range>
constexpr std::uint64_t fnv1a(const Range& range, std::uint64_t hash = kFnvBasis) {
    for (auto item : range)
        hash = (hash ^ static_cast<std::make_unsigned_t<decltype(item)>>(item)) * 0x100000001b3u;
    return hash;
}

}  // namespace swy::call
