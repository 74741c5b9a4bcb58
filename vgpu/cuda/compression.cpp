#include "vgpu/cuda/compression.hpp"

#include <dlfcn.h>

namespace vgpu::cuda {
namespace {

// The interfaces of liblz4 and libzstd that have been the same since their first stable releases.
using Lz4 = int (*)(const char* from, char* to, int bytes, int room);
using Zstd = std::size_t (*)(void* to, std::size_t room, const void* from, std::size_t bytes);

void* function_of(const char* library, const char* function, std::string& reason) {
    void* const handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    void* const found = handle == nullptr ? nullptr : dlsym(handle, function);
    if (found == nullptr)
        reason = std::string("its device code is compressed, and ") + library +
                 " cannot be loaded: install it, or build with nvcc -Xfatbin --compress-mode=none";
    return found;
}

constexpr std::size_t kMost = std::size_t{1} << 30;  // more than any module of PTX; what a damaged header may claim

}  // namespace

std::string decompress(Compression how, std::span<const char> compressed, std::size_t bytes, std::string& reason) {
    static std::string lz4_reason, zstd_reason;
    static const auto lz4 = reinterpret_cast<Lz4>(function_of("liblz4.so.1", "LZ4_decompress_safe", lz4_reason));
    static const auto zstd = reinterpret_cast<Zstd>(function_of("libzstd.so.1", "ZSTD_decompress", zstd_reason));
    const bool there = how == Compression::Lz4 ? lz4 != nullptr : zstd != nullptr;
    if (!there) {
        reason = how == Compression::Lz4 ? lz4_reason : zstd_reason;
        return "";
    }
    std::string text(bytes <= kMost && compressed.size() <= kMost ? bytes : 0, '\0');
    bool whole = false;
    if (how == Compression::Lz4) {
        const int written =
            lz4(compressed.data(), text.data(), static_cast<int>(compressed.size()), static_cast<int>(text.size()));
        whole = written >= 0 && static_cast<std::size_t>(written) == text.size();
    } else {
        whole = zstd(text.data(), text.size(), compressed.data(), compressed.size()) == text.size();
    }
    if (whole && !text.empty())
        return text;
    reason = "its compressed device code is damaged";
    return "";
}

}  // namespace vgpu::cuda
