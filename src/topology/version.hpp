// Which hwloc this process runs with. The only folder that includes hwloc.h; `switchyard info` asks.
#pragma once

#include <string>

namespace swy::topology {

std::string hwloc_api_version();  // "2.8.0": hwloc tells the version of its interface, not of its release

}  // namespace swy::topology
