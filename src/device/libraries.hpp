// The shared libraries of this process, as the dynamic linker lists them. Libraries in namespaces of their own
// (dlmopen) are not seen: nothing in them can share memory handles with the program's MPI calls. Nothing here loads a
// library.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace swy::device {

// Tells whether a library of this DT_SONAME (or, where it has none, of this file name) is in the process.
bool library_loaded(std::string_view soname);

// How many libraries this process has ever loaded: increases with each load and never decreases.
unsigned long long loads_so_far();

struct Library {
    std::string name;    // its file; "" for the program itself
    std::string soname;  // "" where it has none
    std::vector<std::string> needed;
    std::uintptr_t base = 0;
};
std::vector<Library> libraries();  // in the dynamic linker's order: newer ones come later

}  // namespace swy::device
