// The traces that a GPU driver leaves on a node. node_has_driver() asks; apart for the sake of tests.
#pragma once

#include <string>
#include <string_view>

namespace swy::device {

// Device files and entries in /proc of NVIDIA's drivers: for GPUs (nvidiactl), for Tegra (nvgpu, nvhost-gpu), under WSL
// (dxg). `root` is put before each path.
bool driver_files_under(const std::string& root);

// Is there a libcuda.so.1 in one of the folders of a list as LD_LIBRARY_PATH is one?
bool driver_in_path(std::string_view folders);

}  // namespace swy::device
