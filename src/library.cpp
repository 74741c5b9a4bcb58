// The library's name and version as one string, so that `strings` and crash reports can tell which build is loaded.
// Nothing calls this file.

#include "config.h"

namespace swy {
[[gnu::used]] static const char kIdentity[] = "switchyard " PACKAGE_VERSION ", built with Open MPI " SWY_MPI_VERSION;
}  // namespace swy
