#include "cli/elf_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

namespace swy::cli {

ElfFile::ElfFile(const std::string& path) {
    const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    struct stat about {};
    if (file >= 0 && fstat(file, &about) == 0 && S_ISREG(about.st_mode) && about.st_size > 0) {
        void* mapped = mmap(nullptr, static_cast<std::size_t>(about.st_size), PROT_READ, MAP_PRIVATE, file, 0);
        if (mapped != MAP_FAILED) {
            data_ = static_cast<const unsigned char*>(mapped);
            size_ = static_cast<std::size_t>(about.st_size);
        }
    }
    if (file >= 0)
        close(file);
}

ElfFile::~ElfFile() {
    if (data_ != nullptr)
        munmap(const_cast<unsigned char*>(data_), size_);
}

bool ElfFile::contains(std::span<const unsigned char> bytes) const {
    return data_ != nullptr && memmem(data_, size_, bytes.data(), bytes.size()) != nullptr;
}

template <typename T>
const T* ElfFile::at(std::size_t offset, std::size_t number) const {
    const bool inside = offset <= size_ && number <= (size_ - offset) / sizeof(T) && offset % alignof(T) == 0;
    return inside ? reinterpret_cast<const T*>(data_ + offset) : nullptr;
}

std::span<const Elf64_Shdr> ElfFile::sections() const {
    const auto* header = at<Elf64_Ehdr>(0);
    if (header == nullptr || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 ||
        header->e_ident[EI_CLASS] != ELFCLASS64)
        return {};
    const auto* first = at<Elf64_Shdr>(header->e_shoff, header->e_shnum);
    return {first, first == nullptr ? std::size_t{0} : header->e_shnum};
}

bool ElfFile::is_stripped() const {
    const auto all = sections();
    return std::none_of(all.begin(), all.end(), [](const Elf64_Shdr& one) { return one.sh_type == SHT_SYMTAB; });
}

std::set<std::string> ElfFile::functions() const {
    std::set<std::string> names;
    const auto all = sections();
    for (const Elf64_Shdr& table : all) {
        if (table.sh_type != SHT_DYNSYM || table.sh_link >= all.size())
            continue;
        const Elf64_Shdr& text = all[table.sh_link];
        const std::size_t number = table.sh_size / sizeof(Elf64_Sym);
        const auto* symbols = at<Elf64_Sym>(table.sh_offset, number);
        const char* strings = at<char>(text.sh_offset, text.sh_size);
        for (std::size_t s = 0; symbols != nullptr && strings != nullptr && s < number; ++s) {
            const Elf64_Sym& symbol = symbols[s];
            if (symbol.st_shndx != SHN_UNDEF && ELF64_ST_TYPE(symbol.st_info) == STT_FUNC &&
                symbol.st_name < text.sh_size)
                names.emplace(strings + symbol.st_name,
                              strnlen(strings + symbol.st_name, text.sh_size - symbol.st_name));
        }
    }
    return names;
}

}  // namespace swy::cli
