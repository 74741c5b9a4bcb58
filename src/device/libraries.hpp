// The shared libraries of this process, as the dynamic linker lists them. Libraries in namespaces of their own
// (dlmopen) are not seen: nothing in them can share memory handles with the program's MPI calls. Loads nothing.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace swy::device {

// Is a library of this DT_SONAME (or, where it has none, this file name) in the process?
bool library_loaded(std::string_view soname);

// How many libraries this process has ever loaded: changes with each load, never goes back.
unsigned long long loads_so_far();

struct Library {
    std::string name;    // its file; "" for the program itself
    std::string soname;  // "" where it has none
    std::vector<std::string> needed;
    std::uintptr_t base = 0;
};
std::vector<Library> libraries();  // in the dynamic linker's order: newer ones come later

}  // namespace swy::device
