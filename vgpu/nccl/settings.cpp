#include "vgpu/nccl/settings.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include <nccl.h>

#include "vgpu/nccl/debug.hpp"
#include "vgpu/private.h"

namespace vgpu::nccl {
namespace {

const char* text_of(const char* name) {
    const char* value = std::getenv(name);
    return value == nullptr ? "" : value;
}

bool on(const char* name) {
    const char* value = text_of(name);
    return *value != '\0' && std::strcmp(value, "0") != 0;
}

std::size_t read_buffer() {
    const char* value = text_of("VGPU_NCCL_BUFFER");
    if (*value == '\0')
        return 0;
    char* end = nullptr;
    std::size_t bytes = std::strtoull(value, &end, 10);
    if (*end == 'K' || *end == 'k')
        bytes <<= 10, ++end;
    else if (*end == 'M' || *end == 'm')
        bytes <<= 20, ++end;
    if (end == value || *end != '\0' || *value == '-') {
        report(std::string("VGPU_NCCL_BUFFER=") + value +
               ": not a number of bytes; write e.g. 0, 4096 or 512K. Every send waits for its receive.");
        return 0;
    }
    return bytes;
}

int read_version() {
    const char* value = text_of("VGPU_NCCL_VERSION");
    if (*value == '\0')
        return vgpu_machine_nccl() != 0 ? std::min(vgpu_machine_nccl(), NCCL_VERSION_CODE) : NCCL_VERSION_CODE;
    int major = 0;
    int minor = 0;
    int patch = 0;
    const int found = std::sscanf(value, "%d.%d.%d", &major, &minor, &patch);
    const int version = NCCL_VERSION(major, minor, patch);
    if (found < 2 || version < NCCL_VERSION(2, 18, 0) || version > NCCL_VERSION_CODE) {
        report(std::string("VGPU_NCCL_VERSION=") + value + ": not a version from 2.18 to 2.28.9; it stays 2.28.9.");
        return NCCL_VERSION_CODE;
    }
    return version;
}

Settings read() {
    Settings s;
    s.strict = on("VGPU_STRICT");
    s.buffer = read_buffer();
    s.alone = on("VGPU_NCCL_ALONE");
    s.version = read_version();
    s.multi_rank_gpu = on("NCCL_MULTI_RANK_GPU_ENABLE");
    s.check_pointers = on("NCCL_CHECK_POINTERS");
    s.runtime_connect = std::strcmp(text_of("NCCL_RUNTIME_CONNECT"), "0") != 0;
    return s;
}

}  // namespace

const Settings& settings() {
    static const Settings* const kSettings = new Settings(read());  // never destroyed: used while the process ends
    return *kSettings;
}

}  // namespace vgpu::nccl
