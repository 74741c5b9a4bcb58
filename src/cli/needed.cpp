#include "cli/needed.hpp"

#include <elf.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <memory>
#include <set>
#include <span>
#include <sstream>
#include <string>

#include "cli/launch.hpp"

namespace swy::cli {

namespace {

// Reads an ELF file, a program or a shared library, without loading it, so that none of its code runs.
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

// The UUID that NVIDIA's CUDA runtime passes to cuGetExportTable, since CUDA 5: a file with these bytes has that
// runtime linked into it.
constexpr std::array<unsigned char, 16> kRuntimeTable = {0x6b, 0xd5, 0xfb, 0x6c, 0x5b, 0xf4, 0xe7, 0x4a,
                                                         0x89, 0x87, 0xd9, 0x39, 0x12, 0xfd, 0x9d, 0xf9};

// Whether the virtual GPUs' libvgpu_static.so knows this machine's instructions.
#ifdef __x86_64__
constexpr bool kReplaces = true;
#else
constexpr bool kReplaces = false;
#endif

std::string file_name(const std::string& path) {
    return path.substr(path.rfind('/') + 1);
}

bool has_nvidias_runtime(const std::string& file) {
    return !file_name(file).starts_with("libcuda.so") && ElfFile(file).contains(kRuntimeTable);
}

std::set<std::string> mpi_functions(const std::string& file) {
    std::set<std::string> all = ElfFile(file).functions();
    std::erase_if(all, [](const std::string& name) { return !name.starts_with("MPI_"); });
    return all;
}

// Names a set of MPI functions by its first one and the number of the others.
std::string listed(const std::vector<std::string>& names) {
    return names.size() == 1 ? names[0] : fmt::format("{} and {} more", names[0], names.size() - 1);
}

// Returns the MPI functions of `mpi` that this file defines too.
std::vector<std::string> wrapped(const std::set<std::string>& mpi, const std::string& file) {
    const std::set<std::string> own = mpi_functions(file);
    std::vector<std::string> both;
    std::set_intersection(own.begin(), own.end(), mpi.begin(), mpi.end(), std::back_inserter(both));
    return both;
}

Check passed_over(const std::string& program, const std::string& tool, const std::string& functions, bool linked) {
    return {"tools", Health::kProblem,
            fmt::format("{} wraps {}, but comes after Switchyard{}: it would see none of these calls of {}", tool,
                        functions, linked ? "" : " under switchyard run and LD_PRELOAD", program),
            fmt::format("Preload it too, which puts it in front: LD_PRELOAD={} switchyard run ...; or link the program "
                        "again with swycc and the tool, in the order tool, Switchyard, libmpi: swycc app.o -lTOOL.",
                        tool)};
}

}  // namespace

std::vector<Needed> needed_by(const std::string& program) {
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> pipe(
        popen(("LD_PRELOAD= ldd " + shell_quoted(program) + " 2>/dev/null").c_str(), "r"), pclose);
    std::vector<Needed> all;
    std::array<char, 4096> line{};
    while (pipe && std::fgets(line.data(), line.size(), pipe.get()) != nullptr) {
        std::istringstream fields(line.data());
        Needed one;
        std::string arrow;
        fields >> one.name >> arrow >> one.file;
        if (arrow != "=>" || one.file == "not")  // "libx.so => not found"
            one.file = arrow == "=>" ? "" : one.name;
        all.push_back(one);
    }
    return all;
}

const Needed* find(const std::vector<Needed>& all, std::string_view start) {
    const auto at =
        std::find_if(all.begin(), all.end(), [&](const Needed& one) { return file_name(one.name).starts_with(start); });
    return at == all.end() ? nullptr : &*at;
}

std::optional<Check> look_for_nvidias_runtime(const Patient& patient, const std::string& program,
                                              const std::vector<Needed>& all) {
    if (!patient.found.driver.is_virtual)
        return std::nullopt;
    std::vector<std::string> files = {program};
    for (const Needed& one : all)
        files.push_back(one.file);
    std::erase_if(files, [](const std::string& file) { return !has_nvidias_runtime(file); });
    const auto at = std::find_if(files.begin(), files.end(), [](const std::string& file) {
        return !kReplaces || file_name(file).starts_with("libcudart.so") || ElfFile(file).is_stripped();
    });
    if (files.empty())
        return std::nullopt;
    if (at == files.end())
        return Check{"cuda-runtime", Health::kGood,
                     fmt::format("{} has NVIDIA's static CUDA runtime in it (nvcc's default): switchyard run has the "
                                 "virtual GPUs' in its place",
                                 files.front()),
                     ""};
    if (file_name(*at).starts_with("libcudart.so"))
        return Check{
            "cuda-runtime", Health::kProblem,
            fmt::format("{} finds NVIDIA's own CUDA runtime, {}, which the virtual GPUs cannot serve", program, *at),
            "The virtual GPUs have libcudart.so.12 and .13: link with one of these, and without an rpath to "
            "NVIDIA's."};
    return Check{
        "cuda-runtime", Health::kProblem,
        fmt::format(
            "{} has NVIDIA's static CUDA runtime in it (nvcc's default), which the virtual GPUs can only replace "
            "in a file that is not stripped; on a real GPU it works",
            *at),
        "Do not strip it, or link it with nvcc -cudart shared, or with -lcudart in place of -lcudart_static."};
}

std::optional<Check> look_for_profilers(const Patient&, const std::string& program, const std::vector<Needed>& all) {
    const Needed* mpi = find(all, "libmpi.so");
    if (mpi == nullptr || mpi->file.empty())
        return std::nullopt;
    const Needed* shim = find(all, "libswitchyard.so");
    const std::set<std::string> functions = mpi_functions(mpi->file);
    std::optional<Check> above;
    if (const auto names = wrapped(functions, program); !names.empty())
        above = Check{"tools", Health::kGood,
                      fmt::format("{} wraps {} itself, above Switchyard", program, listed(names)), ""};
    for (const Needed* one = all.data(); one != mpi; ++one) {  // behind libmpi a tool sees nothing in any case
        const auto names = one != shim ? wrapped(functions, one->file) : std::vector<std::string>();
        if (names.empty())
            continue;
        if (shim == nullptr || one > shim)
            return passed_over(program, one->file, listed(names), shim != nullptr);
        above =
            Check{"tools", Health::kGood, fmt::format("{} wraps {}, above Switchyard", one->file, listed(names)), ""};
    }
    return above;
}

}  // namespace swy::cli
