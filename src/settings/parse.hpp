// Parses and prints single values: sizes, numbers, times, and yes or no. For settings.cpp and the command line.
#pragma once

#include <cstddef>
#include <limits>
#include <span>
#include <string>
#include <string_view>

namespace swy::settings {

bool parse_bool(std::string_view text, bool& value);         // 1 0 yes no on off true false, any case
bool parse_size(std::string_view text, std::size_t& value);  // whole bytes, or with K M G T (KiB ...): powers of 1024
bool parse_seconds(std::string_view text, double& value);    // 0, 30, 0.5, 30s; finite and not negative
bool parse_int(std::string_view text, int least, int most, int& value);

std::string print_size(std::size_t bytes);  // the shortest text that parse_size reads back: "64K", "1000"
std::string print_seconds(double seconds);

// Returns the number of insertions, deletions, replacements and swaps of neighbours that turn one text into the other.
std::size_t edit_distance(std::string_view a, std::string_view b);

// Returns the index of the candidate with the smallest edit distance, the first of equals. `candidates` is not empty.
std::size_t nearest(std::string_view text, std::span<const std::string_view> candidates);

}  // namespace swy::settings
