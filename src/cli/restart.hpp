// Restarts this command in the environment of a program under `switchyard run --virtual-gpus N`: the dynamic linker
// reads LD_LIBRARY_PATH when a process starts, and not later.
#pragma once

#include <span>
#include <string>

namespace swy::cli {

// Calls exec on `switchyard COMMAND ARGUMENTS`, without --virtual-gpus. Returns the exit status, after a sentence on
// standard error, when that fails.
int restart_with_virtual_gpus(int count, const std::string& command, std::span<const std::string> arguments);

}  // namespace swy::cli
