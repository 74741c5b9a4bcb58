#include "report/units.hpp"

#include <fmt/format.h>

#include <array>
#include <string_view>

namespace swy::report {

std::string size_text(std::uint64_t bytes) {
    constexpr std::array<std::string_view, 6> kUnits = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    double value = static_cast<double>(bytes);
    std::size_t unit = 0;
    while (value >= 1024 && unit + 1 < kUnits.size()) {
        value /= 1024;
        ++unit;
    }
    return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.1f} {}", value, kUnits[unit]);
}

std::string time_text(double seconds) {
    if (seconds < 1e-3)
        return fmt::format("{:.1f} us", seconds * 1e6);
    if (seconds < 1)
        return fmt::format("{:.1f} ms", seconds * 1e3);
    if (seconds < 1e4)
        return fmt::format("{:.2f} s", seconds);
    return fmt::format("{:.1f} h", seconds / 3600);
}

std::string ranks_in_words(const std::vector<int>& ranks) {
    constexpr std::size_t kShown = 8;
    std::string text = ranks.size() == 1 ? "rank" : "ranks";
    for (std::size_t i = 0; i < ranks.size() && i < kShown; ++i)
        text += fmt::format("{} {}", i == 0 ? "" : ",", ranks[i]);
    if (ranks.size() > kShown)
        text += fmt::format(" and {} more", ranks.size() - kShown);
    return text;
}

}  // namespace swy::report
