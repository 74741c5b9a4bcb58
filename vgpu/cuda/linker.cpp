#include "vgpu/cuda/linker.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <optional>

#include <elf.h>

#include "vgpu/cuda/elf.hpp"
#include "vgpu/cuda/image.hpp"
#include "vgpu/ptx/ptx.hpp"

namespace vgpu::cuda {
namespace {

constexpr std::string_view kArchive = "!<arch>\n";
constexpr std::size_t kArchiveHeader = 60;  // bytes before each member, ar(5)

Linker::Kind kind_of(std::string_view bytes) {
    if (bytes.starts_with(kArchive))
        return Linker::Kind::Library;
    if (fatbin_bytes(bytes) != 0)
        return Linker::Kind::Fatbin;
    Elf64_Ehdr header;
    if (bytes.size() < sizeof header || !bytes.starts_with(ELFMAG))
        return Linker::Kind::Ptx;
    std::memcpy(&header, bytes.data(), sizeof header);
    return header.e_machine == kCubinMachine ? Linker::Kind::Cubin : Linker::Kind::Object;
}

// The next member of an archive, which is taken off `rest`; nothing at its end.
std::optional<std::string_view> next_member(std::string_view& rest) {
    if (rest.size() < kArchiveHeader)
        return {};
    const char* const digits = rest.data() + 48;  // the size, in decimal digits and blanks
    std::size_t bytes = 0;
    if (std::from_chars(digits, digits + 10, bytes).ec != std::errc() || bytes > rest.size() - kArchiveHeader)
        return {};
    const std::string_view member = rest.substr(kArchiveHeader, bytes);
    rest.remove_prefix(std::min(rest.size(), kArchiveHeader + bytes + bytes % 2));  // members begin at even offsets
    return member;
}

}  // namespace

CUresult Linker::add(Kind kind, std::string_view bytes, const std::string& name) {
    const Kind found = kind_of(bytes);
    if (kind != Kind::Any && kind != found)
        return refuse(CUDA_ERROR_INVALID_IMAGE, name, "these bytes are not of the kind that the call says");
    switch (found) {
        case Kind::Cubin:
            return add_cubin(bytes, name);
        case Kind::Fatbin:
            return add_fatbin(bytes, name);
        case Kind::Object:
            return add_object(bytes, name);
        case Kind::Library:
            return add_library(bytes, name);
        case Kind::Ptx:
        case Kind::Any:
            break;
    }
    return add_ptx(std::string(bytes.substr(0, bytes.find('\0'))), name);
}

CUresult Linker::add_ptx(const std::string& text, const std::string& name) {
    const Loaded loaded = load_image(text.c_str(), cuda_, capability_);
    if (loaded.result != CUDA_SUCCESS)
        return refuse(loaded.result, name, loaded.log.empty() ? "no PTX: it has no .version" : loaded.log);
    const std::string_view alone = text;
    ptx::Refusal refusal;
    if (ptx::link({&alone, 1}, refusal) == nullptr && refusal.kind == ptx::Refusal::Kind::Syntax)
        return refuse(CUDA_ERROR_INVALID_PTX, name, refusal.text);
    texts_.push_back(text);
    return CUDA_SUCCESS;
}

CUresult Linker::add_cubin(std::string_view bytes, const std::string& name) {
    const std::vector<std::string> texts = texts_of(bytes);
    if (texts.empty())
        return refuse(CUDA_ERROR_NO_BINARY_FOR_GPU, name,
                      "machine code without PTX, which is all that virtual GPUs run: compile it to PTX");
    texts_.insert(texts_.end(), texts.begin(), texts.end());
    return CUDA_SUCCESS;
}

CUresult Linker::add_fatbin(std::string_view bytes, const std::string& name) {
    std::string reason;
    const std::string text = newest_ptx_of(bytes.data(), cuda_, capability_, reason);
    if (!text.empty())
        return add_ptx(text, name);
    return refuse(CUDA_ERROR_NO_BINARY_FOR_GPU, name,
                  reason.empty() ? "no PTX that the virtual GPUs can run: compile it with -gencode "
                                   "arch=compute_90,code=compute_90"
                                 : reason);
}

// Sections of fat binaries, one behind the other, each at a multiple of 8 bytes: nvcc's __nv_relfatbin is what is to be
// linked, .nv_fatbin what is whole.
CUresult Linker::add_object(std::string_view bytes, const std::string& name) {
    for (const Section& section : sections_of(bytes)) {
        if (section.name != "__nv_relfatbin" && section.name != ".nv_fatbin")
            continue;
        for (std::string_view rest = section.content; !rest.empty();) {
            const std::size_t whole = fatbin_bytes(rest);
            if (whole != 0)
                if (const CUresult result = add_fatbin(rest.substr(0, whole), name); result != CUDA_SUCCESS)
                    return result;
            rest.remove_prefix(std::min(rest.size(), whole == 0 ? 8 : (whole + 7) / 8 * 8));
        }
    }
    return CUDA_SUCCESS;  // an object without device code adds nothing
}

CUresult Linker::add_library(std::string_view bytes, const std::string& name) {
    std::string_view rest = bytes.substr(kArchive.size());
    while (const auto member = next_member(rest)) {
        if (kind_of(*member) != Kind::Object)
            continue;  // the archive's table and its long names
        const std::string before = log_;
        const CUresult result = add_object(*member, name);
        if (result == CUDA_ERROR_NO_BINARY_FOR_GPU) {
            unused_ += log_.substr(before.size());
            log_ = before;
        } else if (result != CUDA_SUCCESS) {
            return result;
        }
    }
    return CUDA_SUCCESS;
}

CUresult Linker::complete() {
    const std::vector<std::string_view> views(texts_.begin(), texts_.end());
    ptx::Refusal refusal;
    if (ptx::link(views, refusal) == nullptr) {
        log_ += unused_;
        return refuse(CUDA_ERROR_INVALID_IMAGE, "", refusal.text);
    }
    cubin_ = cubin_of(texts_, capability_, interface_);
    return CUDA_SUCCESS;
}

CUresult Linker::refuse(CUresult result, const std::string& name, const std::string& why) {
    log_ += "error   : " + (name.empty() ? "" : name + ": ") + why + "\n";
    return result;
}

}  // namespace vgpu::cuda
