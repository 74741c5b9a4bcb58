// What cuInit shares with the other ways into the driver.
#pragma once

#include <string>
#include <vector>

namespace vgpu::cuda {

// Prints all bad VGPU_* values together, so that a user can correct them before the next run. Once per process.
void report(const std::vector<std::string>& complaints);

}  // namespace vgpu::cuda
