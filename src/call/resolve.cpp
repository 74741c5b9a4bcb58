#include "call/resolve.hpp"

#include <dlfcn.h>

#include <cstdio>

namespace swy::real {
namespace {

// The MPI that this library was built with; the library's version number has been 40 since Open MPI 4.0.
constexpr const char* kLibrary = "libmpi.so.40";

// Some extensions have no profiling name: MPIX_Query_cuda_support.
void* look(void* where, const char* name) {
    void* found = dlsym(where, name);
    return found != nullptr ? found : dlsym(where, name + 1);
}

}  // namespace

const link_map* object_of(const void* address) {
    Dl_info info;
    void* object = nullptr;
    return address != nullptr && dladdr1(address, &info, &object, RTLD_DL_LINKMAP) != 0
               ? static_cast<const link_map*>(object)
               : nullptr;
}

const link_map* libmpi() {
    void* library = dlopen(kLibrary, RTLD_NOLOAD | RTLD_LAZY);
    link_map* object = nullptr;
    if (library != nullptr) {
        dlinfo(library, RTLD_DI_LINKMAP, &object);
        dlclose(library);  // it stays: whoever loaded it holds it
    }
    return object;
}

void* find(const char* name) {
    if (void* found = look(RTLD_NEXT, name))
        return found;
    // A host program that loads MPI privately (RTLD_LOCAL, as Python does with extension modules) hides it from
    // RTLD_NEXT.
    void* library = dlopen(kLibrary, RTLD_NOLOAD | RTLD_LAZY);
    void* found = library != nullptr ? look(library, name) : nullptr;
    if (library != nullptr)
        dlclose(library);  // it stays: whoever loaded it holds it
    if (found == nullptr)
        std::fprintf(
            stderr,
            "switchyard: no %s in this process: looked in the libraries after libswitchyard, then in %s, which %s.\n"
            "switchyard: preload libswitchyard into an MPI program, or link with `-Wl,--no-as-needed -lswitchyard "
            "-lmpi`, in this order.\n",
            name + 1, kLibrary, library != nullptr ? "is loaded but does not have it" : "is not loaded");
    return found;
}

}  // namespace swy::real
