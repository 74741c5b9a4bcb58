// The command line of a subcommand: how each is read, and how each says that it was not understood.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <span>
#include <string>

namespace swy::cli {

// Reads the words into what the options were bound to. Nothing when all is well; else the status to exit with: help was
// asked for and printed, or a sentence says what was not understood.
std::optional<int> read_arguments(CLI::App& app, std::span<const std::string> words);

// Which option that names a file was given "", as from a shell's variable that is not set: that would count as not
// given.
std::string file_without_name(const CLI::App& app);

// Of an option that takes seconds: "" or what is wrong with its word. CLI11's own check tells all numbers that there
// are.
std::string seconds_problem(const std::string& word);

// "switchyard topo: TEXT" on standard error.
int refuse(const CLI::App& app, const std::string& text, int status);

}  // namespace swy::cli
