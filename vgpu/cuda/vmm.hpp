// Reserved addresses, into which programs map physical memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

namespace vgpu::cuda {

struct Reserved {
    std::uintptr_t address;
    std::size_t bytes;
};

// The reserved range that an address lies in, mapped there or not.
std::optional<Reserved> reservation_of(std::uintptr_t address);

}  // namespace vgpu::cuda
