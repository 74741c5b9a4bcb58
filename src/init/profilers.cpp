#include "init/profilers.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cerrno>
#include <map>
#include <set>

#include "call/resolve.hpp"

namespace swy::real {
namespace {

using Wrapped = std::map<const link_map*, std::set<std::string>>;  // the functions that a tool defines

// Returns the object that defines this function, from `where` on in the dynamic linker's order. A program that takes a
// function's address may have a name for it without defining it.
const link_map* definer(void* where, const char* name) {
    const void* address = dlsym(where, name);
    Dl_info info;
    void* entry = nullptr;
    if (address == nullptr || dladdr1(address, &info, &entry, RTLD_DL_SYMENT) == 0 || entry == nullptr ||
        static_cast<const ElfW(Sym)*>(entry)->st_shndx == SHN_UNDEF)
        return nullptr;
    return object_of(address);
}

std::string text_of(const Wrapped& tools) {
    std::string text;
    for (const auto& [object, names] : tools) {
        const std::string file = *object->l_name != '\0' ? object->l_name : program_invocation_name;
        text += (text.empty() ? "" : "; ") + file + " (" + *names.begin() +
                (names.size() > 1 ? fmt::format(" and {} more)", names.size() - 1) : ")");
    }
    return text;
}

}  // namespace

Profilers profilers() {
    const link_map* ours = object_of(reinterpret_cast<const void*>(&profilers));
    const link_map* mpi = libmpi();
    const auto is_tool = [=](const link_map* object) { return object != nullptr && object != ours && object != mpi; };
    Wrapped above, below;
    for (const char* const* name = kNames; *name != nullptr; ++name) {
        const char* function = *name + 1;  // without the P
        const link_map* first = definer(RTLD_DEFAULT, function);
        const link_map* next = definer(RTLD_NEXT, function);
        if (first == next || first == nullptr)
            continue;  // Switchyard leaves this function alone: whoever defines it first has its calls
        if (is_tool(first))
            above[first].emplace(function);
        if (is_tool(next))
            below[next].emplace(function);
    }
    return {text_of(above), text_of(below)};
}

}  // namespace swy::real
