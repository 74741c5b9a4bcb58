#include "topology/version.hpp"

#include <fmt/format.h>
#include <hwloc.h>

namespace swy::topology {

std::string hwloc_api_version() {
    const unsigned api = hwloc_get_api_version();
    return fmt::format("{}.{}.{}", api >> 16, api >> 8 & 0xff, api & 0xff);
}

}  // namespace swy::topology
