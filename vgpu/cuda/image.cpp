#include "vgpu/cuda/image.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string_view>
#include <utility>

#include <elf.h>

#include "vgpu/cuda/compression.hpp"
#include "vgpu/cuda/elf.hpp"

namespace vgpu::cuda {
namespace {

constexpr std::uint32_t kFatbin = 0xBA55ED50;
constexpr std::uint32_t kFatbinWrapper = 0x466243b1;

// The layout of a fat binary, which NVIDIA does not document: as nvcc 12.2 to 13.0 write it with -fatbin and each
// -compress-mode, and as public tools read it.
struct FatbinHeader {
    std::uint32_t magic;
    std::uint16_t version;
    std::uint16_t header_bytes;
    std::uint64_t bytes;  // of the members
};
struct FatbinWrapper {
    std::uint32_t magic;
    std::uint32_t version;
    const void* fatbin;
    const void* const* objects;  // from version kToLink on: fat binaries of nvcc -rdc=true's objects, and a null
};
constexpr std::uint32_t kToLink = 2;
struct Member {
    std::uint16_t kind;  // one of the following
    std::uint16_t version;
    std::uint32_t header_bytes;
    std::uint64_t bytes;
    std::uint32_t compressed_bytes;
    std::uint32_t options;
    std::uint16_t minor;  // of PTX; the version of a cubin's ELF interface, where major is 1
    std::uint16_t major;
    std::uint32_t capability;
    std::uint32_t name_offset;
    std::uint32_t name_bytes;
    std::uint64_t flags;
    std::uint64_t unused;
    std::uint64_t plain_bytes;  // of what is compressed
};
constexpr std::uint16_t kPtx = 1;
constexpr std::uint16_t kElf = 2;
constexpr std::uint64_t kLz4 = 0x2000;
constexpr std::uint64_t kZstd = 0x8000;
constexpr int kZstdSince = 12040;  // R550, as the drivers' release notes and RAPIDS' build options have it

// The CUDA release whose driver is the first to take a version of PTX: the table of releases in the PTX ISA.
int cuda_of_ptx(int major, int minor) {
    switch (major) {
        case 7:  // 7.0 to 7.8 came with 11.0 to 11.8
            return 11000 + 10 * minor;
        case 8:  // 8.0 to 8.5 with 12.0 to 12.5; 8.6, 8.7, 8.8 with 12.7, 12.8, 12.9
            return 12000 + 10 * (minor < 6 ? minor : minor + 1);
        default:
            return major < 7 ? 10000 : 1000 * (major + 4) + 10 * minor;
    }
}

// The newest version of PTX that a driver takes, for its message.
std::string newest_ptx(int driver) {
    std::string newest;
    for (int major = 6; major <= 9; ++major)
        for (int minor = 0; minor <= (major == 9 ? 0 : 8); ++minor)
            if (cuda_of_ptx(major, minor) <= driver)
                newest = std::to_string(major) + "." + std::to_string(minor);
    return newest;
}

// A cubin runs on GPUs of its own major version and no older minor one.
bool runs_cubin_of(int capability, int of_cubin) {
    return of_cubin / 10 == capability / 10 && of_cubin % 10 <= capability % 10;
}

Loaded refused(CUresult result, std::string log = "") {
    Loaded loaded;
    loaded.result = result;
    loaded.log = std::move(log);
    return loaded;
}

Loaded taken(std::string text, bool searchable) {
    Loaded loaded;
    loaded.text = std::move(text);
    loaded.searchable = searchable;
    return loaded;
}

Loaded load_elf(const char* data, int driver, int capability) {
    Elf64_Ehdr header;
    std::memcpy(&header, data, sizeof header);
    if (header.e_machine != kCubinMachine)
        return refused(CUDA_ERROR_INVALID_IMAGE);
    const int interface = header.e_ident[EI_ABIVERSION];
    if (interface > newest_interface(driver))
        return refused(CUDA_ERROR_INVALID_IMAGE);
    const auto architecture = static_cast<int>((interface >= 8 ? header.e_flags >> 8 : header.e_flags) & 0xff);
    if (!runs_cubin_of(capability, architecture))
        return refused(CUDA_ERROR_NO_BINARY_FOR_GPU);
    const std::size_t size = std::max<std::size_t>(header.e_shoff + std::size_t{header.e_shnum} * header.e_shentsize,
                                                   header.e_phoff + std::size_t{header.e_phnum} * header.e_phentsize);
    Loaded loaded = taken(std::string(data, size), true);
    loaded.ptx = texts_of(loaded.text);
    return loaded;
}

Loaded load_ptx(std::string text, int driver, int capability) {
    const std::size_t directive = text.find(".version");
    int major = 0, minor = 0, target = 0;
    if (directive == std::string::npos || std::sscanf(text.c_str() + directive, ".version %d.%d", &major, &minor) != 2)
        return refused(CUDA_ERROR_INVALID_IMAGE);
    const std::string line =
        "ptxas application ptx input, line " +
        std::to_string(1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(directive), '\n'));
    if (cuda_of_ptx(major, minor) > driver)
        return refused(CUDA_ERROR_UNSUPPORTED_PTX_VERSION, line + "; fatal   : Unsupported .version " +
                                                               std::to_string(major) + "." + std::to_string(minor) +
                                                               "; current version is '" + newest_ptx(driver) + "'");
    const std::size_t aim = text.find(".target sm_");
    if (aim != std::string::npos && std::sscanf(text.c_str() + aim, ".target sm_%d", &target) == 1 &&
        target > capability)
        return refused(CUDA_ERROR_INVALID_PTX,
                       line + "; fatal   : SM version specified by .target is higher than default SM version assumed");
    Loaded loaded = taken(text, true);
    loaded.ptx.push_back(std::move(text));
    return loaded;
}

// The text of a member of PTX; empty, and why, where it cannot be had.
std::string text_of(const Member& member, const char* content, std::string& reason) {
    if ((member.flags & (kLz4 | kZstd)) == 0)
        return {content, strnlen(content, member.bytes)};
    const std::size_t bytes = std::min<std::size_t>(member.compressed_bytes, member.bytes);
    std::string text = decompress((member.flags & kZstd) != 0 ? Compression::Zstd : Compression::Lz4, {content, bytes},
                                  member.plain_bytes, reason);
    text.resize(strnlen(text.data(), text.size()));
    return text;
}

void take_ptx(const char* data, int driver, int capability, Loaded& loaded) {
    if (std::string text = newest_ptx_of(data, driver, capability, loaded.without); !text.empty())
        loaded.ptx.push_back(std::move(text));
}

// The driver takes the newest cubin that the device runs; where there is none, it compiles the newest PTX that is not
// newer than the device. Whether it goes on to PTX where it cannot read that cubin is not documented: here it does not.
Loaded load_fatbin(const char* data, int driver, int capability) {
    FatbinHeader header;
    std::memcpy(&header, data, sizeof header);
    const char* const begin = data + header.header_bytes;
    const char* const end = begin + header.bytes;
    Member best{};
    const char* content = nullptr;
    for (const char* at = begin; end - at >= static_cast<std::ptrdiff_t>(sizeof(Member));) {
        Member member;
        std::memcpy(&member, at, sizeof member);
        if (member.header_bytes < sizeof member || member.bytes > static_cast<std::uint64_t>(end - at))
            return refused(CUDA_ERROR_INVALID_IMAGE);
        const auto of_member = static_cast<int>(member.capability);
        const bool fits = member.kind == kElf   ? runs_cubin_of(capability, of_member)
                          : member.kind == kPtx ? of_member <= capability
                                                : false;
        if (fits && (member.kind > best.kind || (member.kind == best.kind && member.capability > best.capability))) {
            best = member;
            content = at + member.header_bytes;
        }
        at += member.header_bytes + member.bytes;
    }
    if (content == nullptr)
        return refused(CUDA_ERROR_NO_BINARY_FOR_GPU);
    if ((best.flags & kZstd) != 0 && driver < kZstdSince)
        return refused(CUDA_ERROR_INVALID_IMAGE);
    if ((best.flags & (kLz4 | kZstd)) != 0) {  // the header has the versions too
        if (best.kind == kPtx && cuda_of_ptx(best.major, best.minor) > driver)
            return refused(CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
        if (best.kind == kElf && best.minor > newest_interface(driver))
            return refused(CUDA_ERROR_INVALID_IMAGE);
        return taken("", false);
    }
    if (best.kind == kPtx)
        return load_ptx(std::string(content, strnlen(content, best.bytes)), driver, capability);
    return best.bytes < sizeof(Elf64_Ehdr) ? refused(CUDA_ERROR_INVALID_IMAGE) : load_elf(content, driver, capability);
}

// What nvcc -rdc=true makes: the cubin that nvcc linked, and the objects' own PTX, which a driver links itself where
// that cubin is for another GPU.
Loaded load_objects(const FatbinWrapper& wrapper, int driver, int capability) {
    Loaded loaded = load_fatbin(static_cast<const char*>(wrapper.fatbin), driver, capability);
    loaded.ptx.clear();
    for (const void* const* object = wrapper.objects; *object != nullptr; ++object)
        take_ptx(static_cast<const char*>(*object), driver, capability, loaded);
    if (loaded.result == CUDA_ERROR_NO_BINARY_FOR_GPU && !loaded.ptx.empty()) {
        loaded.result = CUDA_SUCCESS;
        for (const std::string& text : loaded.ptx)
            loaded.text += text;
        loaded.searchable = true;
    }
    return loaded;
}

}  // namespace

int newest_interface(int driver) {
    return driver >= 13000 ? 8 : 7;
}

std::size_t fatbin_bytes(std::string_view bytes) {
    FatbinHeader header;
    if (bytes.size() < sizeof header)
        return 0;
    std::memcpy(&header, bytes.data(), sizeof header);
    if (header.magic != kFatbin ||
        header.bytes > bytes.size() - std::min<std::size_t>(bytes.size(), header.header_bytes))
        return 0;
    return header.header_bytes + header.bytes;
}

std::string newest_ptx_of(const char* data, int driver, int capability, std::string& reason) {
    FatbinHeader header;
    std::memcpy(&header, data, sizeof header);
    const char* const end = data + header.header_bytes + header.bytes;
    Member best{};
    const char* content = nullptr;
    int newer = 0;  // the least capability of PTX that the device is too old for
    for (const char* at = data + header.header_bytes; end - at >= static_cast<std::ptrdiff_t>(sizeof(Member));) {
        Member member;
        std::memcpy(&member, at, sizeof member);
        if (member.header_bytes < sizeof member || member.bytes > static_cast<std::uint64_t>(end - at))
            return {};
        if (member.kind == kPtx && static_cast<int>(member.capability) <= capability &&
            cuda_of_ptx(member.major, member.minor) <= driver && member.capability >= best.capability) {
            best = member;
            content = at + member.header_bytes;
        } else if (member.kind == kPtx && static_cast<int>(member.capability) > capability) {
            newer =
                newer == 0 ? static_cast<int>(member.capability) : std::min(newer, static_cast<int>(member.capability));
        }
        at += member.header_bytes + member.bytes;
    }
    if (content == nullptr && newer != 0)
        reason = "its PTX is for GPUs of compute capability " + std::to_string(newer / 10) + "." +
                 std::to_string(newer % 10) + " and newer (VGPU_MACHINE=rtx-pro-6000 has 12.0)";
    return content == nullptr ? std::string() : text_of(best, content, reason);
}

Loaded load_image(const void* data, int driver, int capability) {
    const auto* bytes = static_cast<const char*>(data);
    std::uint32_t magic = 0;
    std::memcpy(&magic, bytes, sizeof magic);
    if (magic == kFatbinWrapper) {
        FatbinWrapper wrapper;
        std::memcpy(&wrapper, bytes, sizeof wrapper);
        return wrapper.version >= kToLink && wrapper.objects != nullptr
                   ? load_objects(wrapper, driver, capability)
                   : load_image(wrapper.fatbin, driver, capability);
    }
    if (magic == kFatbin) {
        Loaded loaded = load_fatbin(bytes, driver, capability);
        loaded.ptx.clear();
        if (loaded.result == CUDA_SUCCESS)
            take_ptx(bytes, driver, capability, loaded);
        return loaded;
    }
    return std::memcmp(bytes, ELFMAG, SELFMAG) == 0 ? load_elf(bytes, driver, capability)
                                                    : load_ptx(bytes, driver, capability);
}

}  // namespace vgpu::cuda
