// Sizes, times and lists of ranks as reports and messages print them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace swy::report {

std::string size_text(std::uint64_t bytes);                 // "1.5 MiB"
std::string time_text(double seconds);                      // "12.0 ms"
std::string ranks_in_words(const std::vector<int>& ranks);  // "rank 3", "ranks 0, 1, 2"; of many the first eight

}  // namespace swy::report
