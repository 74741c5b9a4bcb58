#include "nccl/member.hpp"

#include <unistd.h>

#include <array>
#include <cstdlib>
#include <fstream>
#include <string>
#include <string_view>

#include "call/hash.hpp"

namespace swy::nccl {
namespace {

// Hashes host name and boot id, unless NCCL_HOSTID names the host (NCCL guide, "NCCL_HOSTID").
std::uint64_t find_host() {
    if (const char* id = std::getenv("NCCL_HOSTID"); id != nullptr && *id != '\0')
        return call::fnv1a(std::string_view(id));
    std::array<char, 256> name{};
    gethostname(name.data(), name.size() - 1);
    std::string boot;
    std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
    return call::fnv1a(std::string(name.data()) + boot);
}

}  // namespace

std::uint64_t host_here() {
    static const std::uint64_t host = find_host();
    return host;
}

Member member_here(int ordinal) {
    Member member;
    member.host = host_here();
    member.process = static_cast<std::uint64_t>(getpid());
    device::Identity identity;
    device::identify(ordinal, identity);
    member.gpu = identity.uuid;
    return member;
}

bool shares_gpus() {
    const char* shared = std::getenv("NCCL_MULTI_RANK_GPU_ENABLE");
    return shared != nullptr && std::string_view(shared) == "1";
}

}  // namespace swy::nccl
