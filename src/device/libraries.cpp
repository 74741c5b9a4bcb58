#include "device/libraries.hpp"

#include <link.h>

#include <cstddef>

namespace swy::device {
namespace {

// The strings in a loaded object's dynamic section. Valid inside a dl_iterate_phdr callback, during which nothing is
// unloaded.
class Dynamic {
  public:
    explicit Dynamic(const dl_phdr_info& info) {
        for (int i = 0; i < info.dlpi_phnum; ++i)
            if (info.dlpi_phdr[i].p_type == PT_DYNAMIC)
                entries_ = reinterpret_cast<const ElfW(Dyn)*>(info.dlpi_addr + info.dlpi_phdr[i].p_vaddr);
        for (const ElfW(Dyn)* entry = entries_; entry != nullptr && entry->d_tag != DT_NULL; ++entry)
            if (entry->d_tag == DT_STRTAB)
                strings_ = entry->d_un.d_ptr;
        // glibc turns the offset into an address, except in read-only dynamic sections such as the vDSO's.
        if (strings_ != 0 && strings_ < info.dlpi_addr)
            strings_ += info.dlpi_addr;
    }

    template <typename Use>
    void each(ElfW(Sxword) tag, Use use) const {
        if (strings_ == 0)
            return;
        for (const ElfW(Dyn)* entry = entries_; entry->d_tag != DT_NULL; ++entry)
            if (entry->d_tag == tag)
                use(reinterpret_cast<const char*>(strings_ + entry->d_un.d_val));
    }

  private:
    const ElfW(Dyn) * entries_ = nullptr;
    std::uintptr_t strings_ = 0;
};

template <typename Use>
int walk(Use use) {
    return dl_iterate_phdr(
        [](dl_phdr_info* info, std::size_t, void* data) -> int { return (*static_cast<Use*>(data))(*info) ? 1 : 0; },
        &use);
}

std::string_view file_part(std::string_view path) {
    return path.substr(path.rfind('/') + 1);
}

}  // namespace

bool library_loaded(std::string_view soname) {
    return walk([soname](const dl_phdr_info& info) {
               bool named = false;
               bool same = false;
               Dynamic(info).each(DT_SONAME, [&](const char* text) {
                   named = true;
                   same = soname == text;
               });
               return same || (!named && info.dlpi_name != nullptr && file_part(info.dlpi_name) == soname);
           }) != 0;
}

unsigned long long loads_so_far() {
    unsigned long long adds = 0;
    walk([&adds](const dl_phdr_info& info) {
        adds = info.dlpi_adds;
        return true;
    });
    return adds;
}

std::vector<Library> libraries() {
    std::vector<Library> all;
    walk([&all](const dl_phdr_info& info) {
        Library library;
        library.name = info.dlpi_name != nullptr ? info.dlpi_name : "";
        library.base = info.dlpi_addr;
        const Dynamic dynamic(info);
        dynamic.each(DT_SONAME, [&](const char* text) { library.soname = text; });
        dynamic.each(DT_NEEDED, [&](const char* text) { library.needed.emplace_back(text); });
        all.push_back(std::move(library));
        return false;
    });
    return all;
}

}  // namespace swy::device
