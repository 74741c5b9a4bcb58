// MPIX_Switchyard_version, and the promise that the public header and the package say the same version.
#include <mpix_switchyard.h>

#include <string_view>

#include "config.h"

#define SWY_TEXT(number) #number
#define SWY_DOTTED(major, minor, patch) SWY_TEXT(major) "." SWY_TEXT(minor) "." SWY_TEXT(patch)

static_assert(std::string_view(SWY_DOTTED(MPIX_SWITCHYARD_VERSION_MAJOR, MPIX_SWITCHYARD_VERSION_MINOR,
                                          MPIX_SWITCHYARD_VERSION_PATCH)) == PACKAGE_VERSION,
              "include/mpix_switchyard.h and configure.ac name different versions");

extern "C" [[gnu::visibility("default")]] int MPIX_Switchyard_version(int* major, int* minor, int* patch) {
    if (major == nullptr || minor == nullptr || patch == nullptr)
        return MPI_ERR_ARG;
    *major = MPIX_SWITCHYARD_VERSION_MAJOR;
    *minor = MPIX_SWITCHYARD_VERSION_MINOR;
    *patch = MPIX_SWITCHYARD_VERSION_PATCH;
    return MPI_SUCCESS;
}
