// Writes jumps over the entries of functions.
#pragma once

#include <string>
#include <vector>

namespace vgpu::static_runtime {

struct Jump {
    unsigned char* entry;
    const void* to;
    const void* argument = nullptr;  // where not null, what `to` is called with as its first argument
};

// Returns "" or why nothing was redirected. No thread may be in one of the functions. Every entry needs kJumpBytes.
constexpr std::size_t kJumpBytes = 5;
std::string redirect(const std::vector<Jump>& jumps);

}  // namespace vgpu::static_runtime
