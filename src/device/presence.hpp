// The traces that a GPU driver leaves on a node, for node_has_driver(). A file of its own so that tests can use it.
#pragma once

#include <string>
#include <string_view>

namespace swy::device {

// Tells whether there are device files or /proc entries of NVIDIA's drivers: for GPUs (nvidiactl), for Tegra (nvgpu,
// nvhost-gpu), under WSL (dxg). `root` is prepended to each path.
bool driver_files_under(const std::string& root);

// Tells whether one of the folders of a list like LD_LIBRARY_PATH has a libcuda.so.1.
bool driver_in_path(std::string_view folders);

}  // namespace swy::device
