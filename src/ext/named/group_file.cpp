#include "ext/named/group_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <utility>

namespace swy::named {
namespace {

constexpr std::string_view kBlanks = " \t\r";

std::string_view trimmed(std::string_view text) {
    const std::size_t first = text.find_first_not_of(kBlanks);
    if (first == std::string_view::npos)
        return {};
    return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

// Parses a number at the beginning of `text`, which it removes.
bool take_number(std::string_view& text, int& number) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || number < 0)
        return false;
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    return true;
}

bool take(std::string_view& text, char sign) {
    if (text.empty() || text.front() != sign)
        return false;
    text.remove_prefix(1);
    return true;
}

// Parses an item such as "3", "0-7", "7-0", "0-6/2". Of a long range, appends at most one rank beyond the world's.
bool append_item(std::string_view item, int world, std::vector<int>& ranks) {
    int first = 0;
    if (!take_number(item, first))
        return false;
    int last = first;
    int step = 1;
    if (take(item, '-') && !take_number(item, last))
        return false;
    if (take(item, '/') && (!take_number(item, step) || step == 0))
        return false;
    if (!item.empty())
        return false;
    const bool down = last < first;
    for (long rank = first; down ? rank >= last : rank <= last; rank += down ? -step : step) {
        ranks.push_back(static_cast<int>(rank));
        if (rank >= world)
            break;
    }
    return true;
}

std::string read_ranks(std::string_view list, int world, std::vector<int>& ranks) {
    while (!list.empty()) {
        const std::size_t end = list.find_first_of(" \t\r,");
        const std::string_view item = list.substr(0, end);
        list = end == std::string_view::npos ? std::string_view{} : list.substr(end + 1);
        if (item.empty())
            continue;
        if (!append_item(item, world, ranks))
            return fmt::format("\"{}\" is no rank and no range of ranks: write 3, 0-7 or 0-6/2", item);
    }
    if (ranks.empty())
        return "a group without ranks";
    for (const int rank : ranks)
        if (rank >= world)
            return fmt::format("rank {} is not in MPI_COMM_WORLD, whose ranks are 0 to {}", rank, world - 1);
    return {};
}

std::string read_line(std::string_view line, int world, NamedGroup& group) {
    const std::size_t sign = line.find('=');
    if (sign == std::string_view::npos)
        return fmt::format("\"{}\" is no group: write NAME = RANKS", line);
    const std::string_view name = trimmed(line.substr(0, sign));
    if (name.empty() || name.find_first_of(kBlanks) != std::string_view::npos)
        return fmt::format("\"{}\" is no name: a word before the =", name);
    group.name = name;
    return read_ranks(trimmed(line.substr(sign + 1)), world, group.ranks);
}

}  // namespace

std::string read_groups(std::string_view text, std::string_view file, int world, std::vector<NamedGroup>& groups) {
    std::map<std::pair<std::string, int>, int> lines;  // line number by name and rank
    for (int number = 1; !text.empty(); ++number) {
        const std::size_t end = text.find('\n');
        std::string_view line = text.substr(0, end);
        text = end == std::string_view::npos ? std::string_view{} : text.substr(end + 1);
        line = trimmed(line.substr(0, line.find('#')));
        if (line.empty())
            continue;
        NamedGroup group;
        group.line = number;
        if (const std::string problem = read_line(line, world, group); !problem.empty())
            return fmt::format("{}:{}: {}", file, number, problem);
        for (const int rank : group.ranks) {
            const auto [at, fresh] = lines.try_emplace({group.name, rank}, number);
            if (!fresh)
                return fmt::format("{}:{}: rank {} is in the group {} already, by line {}", file, number, rank,
                                   group.name, at->second);
        }
        groups.push_back(std::move(group));
    }
    return {};
}

}  // namespace swy::named
