// The settings that `switchyard run` is given as options, --set and those with names of their own.
#pragma once

#include <string>

#include "cli/launch.hpp"

namespace swy::cli {

// Gives a setting its value, in place of the one that it has.
void put(Environment& settings, const std::string& name, const std::string& value);

// Adds what stands after --set. Returns "" or what is wrong with its form or its name; the value is not looked at.
std::string put_assignment(Environment& settings, const std::string& assignment);

// Has all ranks use this libnccl.so.2. NVIDIA's has PTX for the newest GPUs alone, so virtual GPUs are such where
// VGPU_MACHINE does not say else.
void choose_nccl(Environment& settings, const std::string& file, bool virtual_gpus);

// Puts the settings into this process's environment. Returns "" or what is wrong with the environment then: a value
// that is not allowed, an unknown variable.
std::string adopt(const Environment& settings);

}  // namespace swy::cli
