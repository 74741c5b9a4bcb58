// Sizes and times as the report prints them.
#pragma once

#include <cstdint>
#include <string>

namespace swy::report {

std::string size_text(std::uint64_t bytes);  // "1.5 MiB"
std::string time_text(double seconds);       // "12.0 ms"

}  // namespace swy::report
