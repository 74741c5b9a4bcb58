// This command again, with the eyes of a program under `switchyard run --virtual-gpus N`: where libraries are searched
// is settled when a process starts.
#pragma once

#include <span>
#include <string>

namespace swy::cli {

// Becomes `switchyard COMMAND WORDS`, of which --virtual-gpus is left out. Returns the status to exit with, after a
// sentence on standard error, when that is not possible.
int restart_with_virtual_gpus(int count, const std::string& command, std::span<const std::string> words);

}  // namespace swy::cli
