#include "vgpu/static/program.hpp"

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <string_view>

namespace vgpu::static_runtime {

namespace {

// The internal functions of NVIDIA's static runtime have names of nobody else's: libcudart_static_ and hexadecimal
// digits, in CUDA 12.1 and older __cudart and a number.
bool is_internal(std::string_view name) {
    constexpr std::string_view kNew = "libcudart_static_", kOld = "__cudart";
    return name.starts_with(kNew) || (name.starts_with(kOld) && name.size() > kOld.size() && name[kOld.size()] >= '0' &&
                                      name[kOld.size()] <= '9');
}

// A file, mapped to be read.
class File {
  public:
    explicit File(const char* path) {
        const int file = open(path, O_RDONLY | O_CLOEXEC);
        struct stat about {};
        if (file >= 0 && fstat(file, &about) == 0 && about.st_size > 0) {
            void* mapped = mmap(nullptr, static_cast<std::size_t>(about.st_size), PROT_READ, MAP_PRIVATE, file, 0);
            if (mapped != MAP_FAILED)
                bytes_ = {static_cast<const char*>(mapped), static_cast<std::size_t>(about.st_size)};
        }
        if (file >= 0)
            close(file);
    }
    ~File() {
        if (!bytes_.empty())
            munmap(const_cast<char*>(bytes_.data()), bytes_.size());
    }
    File(const File&) = delete;
    File& operator=(const File&) = delete;

    template <typename T>
    std::span<const T> at(std::size_t offset, std::size_t number) const {
        const bool inside =
            offset <= bytes_.size() && number <= (bytes_.size() - offset) / sizeof(T) && offset % alignof(T) == 0;
        if (!inside)
            return {};
        return {reinterpret_cast<const T*>(bytes_.data() + offset), number};
    }

  private:
    std::span<const char> bytes_;
};

struct Symbol {
    std::string_view name;
    ElfW(Addr) value;
    bool exported;  // a definition of the program's own, which replaces the runtime's
};

// Returns the functions that the symbol table names, by address.
std::vector<Symbol> functions_of(const File& file) {
    std::vector<Symbol> all;
    const auto header = file.at<ElfW(Ehdr)>(0, 1);
    if (header.empty() || std::memcmp(header[0].e_ident, ELFMAG, SELFMAG) != 0)
        return all;
    const auto sections = file.at<ElfW(Shdr)>(header[0].e_shoff, header[0].e_shnum);
    for (const ElfW(Shdr) & section : sections) {
        if (section.sh_type != SHT_SYMTAB || section.sh_link >= sections.size())
            continue;
        const auto text = file.at<char>(sections[section.sh_link].sh_offset, sections[section.sh_link].sh_size);
        for (const ElfW(Sym) & symbol : file.at<ElfW(Sym)>(section.sh_offset, section.sh_size / sizeof(ElfW(Sym)))) {
            if (symbol.st_shndx == SHN_UNDEF || (symbol.st_info & 0xf) != STT_FUNC || symbol.st_name >= text.size())
                continue;
            const char* name = text.data() + symbol.st_name;
            all.push_back({{name, strnlen(name, text.size() - symbol.st_name)},
                           symbol.st_value,
                           symbol.st_info >> 4 != STB_LOCAL && (symbol.st_other & 0x3) == STV_DEFAULT});
        }
    }
    std::stable_sort(all.begin(), all.end(), [](const Symbol& a, const Symbol& b) { return a.value < b.value; });
    return all;
}

bool looks_like_cuda(const Symbol& symbol) {
    const bool is_private = symbol.name.starts_with("__cuda");
    return !symbol.exported && !is_internal(symbol.name) && (is_private || symbol.name.starts_with("cuda"));
}

// The linker puts the runtime's functions together. A program may have functions with such names of its own, as nvcc
// gives it `__cudaUnregisterBinaryUtil`: what comes before or after those is no function of the runtime.
std::vector<bool> among_the_runtimes(const std::vector<Symbol>& all) {
    std::vector<bool> after(all.size()), both(all.size());
    bool inside = false;
    const auto step = [&](std::size_t i) {
        if (!looks_like_cuda(all[i]))
            inside = is_internal(all[i].name);
        return inside;
    };
    for (std::size_t i = 0; i < all.size(); ++i)
        after[i] = step(i);
    inside = false;
    for (std::size_t i = all.size(); i-- > 0;)
        both[i] = step(i) && after[i];
    return both;
}

}  // namespace

Runtime find_runtime(const char* path, std::uintptr_t moved_by) {
    const File file(path);
    const std::vector<Symbol> all = functions_of(file);
    Runtime found;
    if (std::none_of(all.begin(), all.end(), [](const Symbol& one) { return is_internal(one.name); }))
        return found;
    const std::vector<bool> inside = among_the_runtimes(all);
    found.major = 13;
    for (std::size_t i = 0; i < all.size(); ++i) {
        if (!inside[i] || !looks_like_cuda(all[i]))
            continue;
        if (all[i].name == "cudaThreadSynchronize")  // CUDA 13 has it no more
            found.major = 12;
        const auto here = all.begin() + static_cast<std::ptrdiff_t>(i);
        const auto next =
            std::find_if(here, all.end(), [&](const Symbol& other) { return other.value != here->value; });
        auto* const entry = reinterpret_cast<unsigned char*>(moved_by + here->value);
        const bool second_name = !found.functions.empty() && found.functions.back().entry == entry;
        if (!second_name && next != all.end())
            found.functions.push_back({std::string(here->name), entry, next->value - here->value});
    }
    return found;
}

}  // namespace vgpu::static_runtime
