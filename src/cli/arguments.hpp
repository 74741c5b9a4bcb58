// Reads the command line of a subcommand, reports what is wrong with it, and follows its --virtual-gpus.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <span>
#include <string>

namespace swy::cli {

// Parses the arguments into the variables that the options are bound to. Returns nothing on success; else the exit
// status, after help was asked for and printed, or after a sentence on standard error that names the mistake.
std::optional<int> read_arguments(CLI::App& app, std::span<const std::string> arguments);

// Returns a sentence on an option that takes a file's name and was given "", as from an unset shell variable; else "".
// CLI11 treats such an option as not given.
std::string file_without_name(const CLI::App& app);

// Returns "" or what is wrong with the value of an option that takes seconds. CLI11's own check would print the range
// of all doubles.
std::string seconds_problem(const std::string& argument);

// "switchyard topo: TEXT" on standard error.
int refuse(const CLI::App& app, const std::string& text, int status);

// Restarts this command in the environment of a program under `switchyard run --virtual-gpus N`: the dynamic linker
// reads LD_LIBRARY_PATH when a process starts, and not later. Calls exec on `switchyard COMMAND ARGUMENTS`, without
// --virtual-gpus. Returns the exit status, after a sentence on standard error, when that fails.
int restart_with_virtual_gpus(int count, const std::string& command, std::span<const std::string> arguments);

}  // namespace swy::cli
