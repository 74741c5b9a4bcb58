#include "vgpu/cuda/elf.hpp"

#include <cstdint>
#include <cstring>

#include <elf.h>

namespace vgpu::cuda {
namespace {

constexpr std::string_view kTextSection = ".vgpu.ptx";

// The bytes of the file from `offset` on; empty where they are not all in it.
std::string_view part_of(std::string_view file, std::uint64_t offset, std::uint64_t bytes) {
    return offset <= file.size() && bytes <= file.size() - offset ? file.substr(offset, bytes) : std::string_view();
}

// The text in `names` that begins at `offset` and ends with 0.
std::string_view name_at(std::string_view names, std::uint64_t offset) {
    if (offset >= names.size())
        return {};
    names.remove_prefix(offset);
    return names.substr(0, names.find('\0'));
}

template <typename Header>
void append(std::string& file, const Header& header) {
    file.append(reinterpret_cast<const char*>(&header), sizeof header);
}

}  // namespace

std::vector<Section> sections_of(std::string_view file) {
    Elf64_Ehdr header;
    if (file.size() < sizeof header)
        return {};
    std::memcpy(&header, file.data(), sizeof header);
    if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
        header.e_shentsize != sizeof(Elf64_Shdr))
        return {};
    const std::string_view table = part_of(file, header.e_shoff, std::uint64_t{header.e_shnum} * sizeof(Elf64_Shdr));
    std::vector<Elf64_Shdr> headers(table.size() / sizeof(Elf64_Shdr));
    if (headers.empty() || header.e_shstrndx >= headers.size())
        return {};
    std::memcpy(headers.data(), table.data(), table.size());
    const Elf64_Shdr& of_names = headers[header.e_shstrndx];
    const std::string_view names = part_of(file, of_names.sh_offset, of_names.sh_size);
    std::vector<Section> sections;
    for (const Elf64_Shdr& each : headers)
        if (each.sh_type != SHT_NULL && each.sh_type != SHT_NOBITS)
            sections.push_back({name_at(names, each.sh_name), part_of(file, each.sh_offset, each.sh_size)});
    return sections;
}

std::string cubin_of(const std::vector<std::string>& texts, int capability, int interface) {
    Elf64_Ehdr header{};
    std::memcpy(header.e_ident, ELFMAG, SELFMAG);
    header.e_ident[EI_CLASS] = ELFCLASS64;
    header.e_ident[EI_DATA] = ELFDATA2LSB;
    header.e_ident[EI_VERSION] = EV_CURRENT;
    header.e_ident[EI_ABIVERSION] = static_cast<unsigned char>(interface);
    header.e_type = ET_EXEC;
    header.e_machine = kCubinMachine;
    header.e_version = EV_CURRENT;
    header.e_flags = static_cast<Elf64_Word>(interface >= 8 ? capability << 8 : capability);
    header.e_ehsize = sizeof header;
    header.e_shentsize = sizeof(Elf64_Shdr);
    const std::string names = std::string(1, '\0') + std::string(kTextSection) + '\0' + ".shstrtab" + '\0';

    std::string content;
    std::vector<Elf64_Shdr> sections(1);  // the first is empty in every ELF file
    const auto add = [&](std::string_view bytes, std::size_t name, Elf64_Word type) {
        Elf64_Shdr section{};
        section.sh_name = static_cast<Elf64_Word>(name);
        section.sh_type = type;
        section.sh_offset = sizeof header + content.size();
        section.sh_size = bytes.size();
        section.sh_addralign = 1;
        sections.push_back(section);
        content += bytes;
    };
    for (const std::string& text : texts)
        add(text, 1, SHT_PROGBITS);
    add(names, 1 + kTextSection.size() + 1, SHT_STRTAB);
    content.resize((content.size() + 7) / 8 * 8);
    header.e_shoff = sizeof header + content.size();
    header.e_shnum = static_cast<Elf64_Half>(sections.size());
    header.e_shstrndx = static_cast<Elf64_Half>(sections.size() - 1);

    std::string file;
    append(file, header);
    file += content;
    for (const Elf64_Shdr& section : sections)
        append(file, section);
    return file;
}

std::vector<std::string> texts_of(std::string_view cubin) {
    std::vector<std::string> texts;
    for (const Section& section : sections_of(cubin))
        if (section.name == kTextSection)
            texts.emplace_back(section.content);
    return texts;
}

}  // namespace vgpu::cuda
