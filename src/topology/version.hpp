// The version of the hwloc that this process runs with, for `switchyard info`. No other folder includes hwloc.h.
#pragma once

#include <string>

namespace swy::topology {

std::string hwloc_api_version();  // "2.8.0": the version of hwloc's interface, not of its release

}  // namespace swy::topology
