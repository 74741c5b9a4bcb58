#include "vgpu/cuda/jit_log.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace vgpu::cuda {

void** jit_value(unsigned count, const CUjit_option* options, void** values, CUjit_option wanted) {
    const CUjit_option* const found = std::find(options, options + count, wanted);
    return found == options + count ? nullptr : &values[found - options];
}

JitLog::JitLog(unsigned count, const CUjit_option* options, void** values, CUjit_option buffer, CUjit_option size) {
    void** const place = jit_value(count, options, values, buffer);
    void** const bytes = jit_value(count, options, values, size);
    if (place == nullptr || bytes == nullptr || *place == nullptr)
        return;
    buffer_ = static_cast<char*>(*place);
    room_ = static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(*bytes));
    written_ = bytes;
}

void JitLog::write(const std::string& text) const {
    if (room_ == 0)
        return;
    const std::size_t bytes = std::min(text.size(), room_ - 1);
    std::memcpy(buffer_, text.data(), bytes);
    buffer_[bytes] = '\0';
    *written_ = reinterpret_cast<void*>(bytes);
}

}  // namespace vgpu::cuda
