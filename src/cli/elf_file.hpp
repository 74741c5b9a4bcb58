// Reads an ELF file, a program or a shared library, without loading it, so that none of its code runs.
#pragma once

#include <elf.h>

#include <cstddef>
#include <set>
#include <span>
#include <string>

namespace swy::cli {

class ElfFile {
  public:
    explicit ElfFile(const std::string& path);  // a file that cannot be read, or is no 64-bit ELF file, has nothing
    ~ElfFile();
    ElfFile(const ElfFile&) = delete;
    ElfFile& operator=(const ElfFile&) = delete;

    bool contains(std::span<const unsigned char> bytes) const;
    bool is_stripped() const;                 // has no symbol table but the dynamic linker's
    std::set<std::string> functions() const;  // that it defines for others; strip(1) leaves these names alone

  private:
    std::span<const Elf64_Shdr> sections() const;
    template <typename T>
    const T* at(std::size_t offset, std::size_t number = 1) const;  // null outside the file

    const unsigned char* data_ = nullptr;
    std::size_t size_ = 0;
};

}  // namespace swy::cli
