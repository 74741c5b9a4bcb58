#include "settings/parse.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <vector>

namespace swy::settings {

namespace {

constexpr std::string_view kPrefixes = "KMGT";

char upper(char c) {
    return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
}

bool same(std::string_view a, std::string_view b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) { return upper(x) == upper(y); });
}

template <typename Number>
bool whole(std::string_view text, Number& value) {
    const char* end = text.data() + text.size();
    const auto [stop, problem] = std::from_chars(text.data(), end, value);
    return problem == std::errc() && stop == end && !text.empty();
}

}  // namespace

bool parse_bool(std::string_view text, bool& value) {
    for (std::string_view accepted : {"1", "yes", "on", "true"}) {
        if (same(text, accepted))
            return value = true;
    }
    for (std::string_view accepted : {"0", "no", "off", "false"}) {
        if (same(text, accepted)) {
            value = false;
            return true;
        }
    }
    return false;
}

bool parse_size(std::string_view text, std::size_t& value) {
    const std::size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
    const std::string_view unit = text.substr(digits);
    std::size_t number = 0;
    if (!whole(text.substr(0, digits), number))
        return false;
    unsigned shift = 0;
    if (!unit.empty()) {
        const std::size_t power = kPrefixes.find(upper(unit[0]));
        // KB is left out: to some it is 1000 bytes, to others 1024.
        if (power == std::string_view::npos || (unit.size() > 1 && !same(unit.substr(1), "iB")))
            return false;
        shift = 10 * static_cast<unsigned>(power + 1);
    }
    if (number > (std::numeric_limits<std::size_t>::max() >> shift))
        return false;
    value = number << shift;
    return true;
}

bool parse_seconds(std::string_view text, double& value) {
    if (text.ends_with('s'))
        text.remove_suffix(1);
    double number = 0;
    if (!whole(text, number) || !std::isfinite(number) || number < 0)
        return false;
    value = number;
    return true;
}

bool parse_int(std::string_view text, int least, int most, int& value) {
    int number = 0;
    if (!whole(text, number) || number < least || number > most)
        return false;
    value = number;
    return true;
}

std::string print_size(std::size_t bytes) {
    std::size_t power = 0;
    while (power < kPrefixes.size() && bytes != 0 && bytes % 1024 == 0) {
        bytes /= 1024;
        ++power;
    }
    std::string text = std::to_string(bytes);
    if (power > 0)
        text += kPrefixes[power - 1];
    return text;
}

std::string print_seconds(double seconds) {
    std::array<char, 64> text;
    const auto end = std::to_chars(text.data(), text.data() + text.size(), seconds).ptr;
    return {text.data(), end};
}

std::size_t edit_distance(std::string_view a, std::string_view b) {
    const std::size_t width = b.size() + 1;
    std::vector<std::size_t> cost((a.size() + 1) * width);
    const auto at = [&](std::size_t i, std::size_t j) -> std::size_t& { return cost[i * width + j]; };
    for (std::size_t i = 0; i <= a.size(); ++i) {
        for (std::size_t j = 0; j <= b.size(); ++j) {
            if (i == 0 || j == 0) {
                at(i, j) = i + j;
                continue;
            }
            const std::size_t replaced = at(i - 1, j - 1) + (a[i - 1] == b[j - 1] ? 0 : 1);
            at(i, j) = std::min({at(i - 1, j) + 1, at(i, j - 1) + 1, replaced});
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                at(i, j) = std::min(at(i, j), at(i - 2, j - 2) + 1);
        }
    }
    return cost.back();
}

std::size_t nearest(std::string_view text, std::span<const std::string_view> candidates) {
    std::size_t best = 0;
    std::size_t best_distance = std::numeric_limits<std::size_t>::max();
    for (std::size_t i = 0; i < candidates.size(); ++i) {
        const std::size_t distance = edit_distance(text, candidates[i]);
        if (distance < best_distance) {
            best = i;
            best_distance = distance;
        }
    }
    return best;
}

}  // namespace swy::settings
