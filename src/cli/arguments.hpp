// Reads the command line of a subcommand, and reports what is wrong with it.
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

}  // namespace swy::cli
