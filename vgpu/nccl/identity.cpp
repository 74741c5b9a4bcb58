#include "vgpu/nccl/identity.hpp"

#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <string>

#include <sys/random.h>
#include <unistd.h>

namespace vgpu::nccl {
namespace {

// The finaliser of splitmix64: every input bit changes every output bit.
std::uint64_t mix(std::uint64_t value) {
    value += 0x9e3779b97f4a7c15ull;
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ull;
    value = (value ^ (value >> 27)) * 0x94d049bb133111ebull;
    return value ^ (value >> 31);
}

}  // namespace

Name random_name() {
    Name name{};
    while (getrandom(name.data(), sizeof name, 0) != static_cast<ssize_t>(sizeof name)) {
    }
    return name;
}

Name derive(const Name& name, std::uint64_t purpose, std::uint64_t number) {
    const std::uint64_t low = mix(mix(mix(name[0]) ^ purpose) ^ number);
    return {low, mix(mix(mix(name[1] ^ low) ^ purpose) ^ number)};
}

std::uint64_t host_hash() {
    std::string text;
    if (const char* id = std::getenv("NCCL_HOSTID"); id != nullptr && *id != '\0') {
        text = id;
    } else {
        char host[256] = "";
        gethostname(host, sizeof host - 1);
        std::string boot;
        std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
        text = host + boot;
    }
    std::uint64_t hash = 0;
    for (const char c : text)
        hash = mix(hash ^ static_cast<unsigned char>(c));
    return hash;
}

}  // namespace vgpu::nccl
