#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "report/summary.hpp"
#include "report/units.hpp"

namespace swy::report {

namespace {

using RouteKey = std::tuple<std::string, Carrier, Reason>;

struct Row {
    std::vector<const Line*> lines;  // by report; null where a report has no such line
    double spread = 0;               // difference between the least and the most time per rank
};

double time_of_rank(const Summary& summary, const Line* line) {
    return line == nullptr ? 0 : line->seconds / static_cast<double>(summary.ranks.size());
}

std::vector<std::pair<RouteKey, Row>> rows_of(std::span<const Summary> summaries) {
    std::map<RouteKey, Row> rows;
    for (std::size_t i = 0; i < summaries.size(); ++i)
        for (const Line& line : summaries[i].lines) {
            Row& row = rows[{line.call, line.carrier, line.reason}];
            row.lines.resize(summaries.size());
            row.lines[i] = &line;
        }
    for (auto& [key, row] : rows) {
        std::vector<double> times;
        for (std::size_t i = 0; i < summaries.size(); ++i)
            times.push_back(time_of_rank(summaries[i], row.lines[i]));
        const auto [least, most] = std::minmax_element(times.begin(), times.end());
        row.spread = *most - *least;
    }
    std::vector<std::pair<RouteKey, Row>> sorted(rows.begin(), rows.end());
    std::stable_sort(sorted.begin(), sorted.end(),
                     [](const auto& a, const auto& b) { return a.second.spread > b.second.spread; });
    return sorted;
}

std::string heading(std::span<const Summary> summaries, std::span<const std::string> names) {
    std::string text;
    for (std::size_t i = 0; i < summaries.size(); ++i) {
        const Summary& s = summaries[i];
        text += fmt::format("  [{}] {}: Switchyard {}, {} rank{}, {}{}{}\n", i + 1, names[i], s.switchyard,
                            s.ranks.size(), s.ranks.size() == 1 ? "" : "s", s.mpi.empty() ? "unknown MPI" : s.mpi,
                            s.nccl.empty() ? "" : ", NCCL ", s.nccl);
    }
    return text;
}

}  // namespace

std::string compared(std::span<const Summary> summaries, std::span<const std::string> names) {
    const auto rows = rows_of(summaries);
    std::size_t widest = 4;
    std::size_t widest_why = 3;
    for (const auto& [key, row] : rows) {
        widest = std::max(widest, std::get<0>(key).size());
        widest_why = std::max(widest_why, name(std::get<2>(key)).size());
    }
    std::string text = heading(summaries, names) +
                       fmt::format("\n  {:<{}}  {:<9}  {:<{}}", "call", widest, "transport", "why", widest_why);
    for (std::size_t i = 0; i < summaries.size(); ++i)
        text += fmt::format("  {:>9} {:>10} {:>10}", fmt::format("calls [{}]", i + 1), "data", "time/rank");
    text += "\n";
    for (const auto& [key, row] : rows) {
        const Reason reason = std::get<2>(key);
        text += fmt::format("  {:<{}}  {:<9}  {:<{}}", std::get<0>(key), widest, name(std::get<1>(key)),
                            reason == Reason::kNone ? "" : name(reason), widest_why);
        for (std::size_t i = 0; i < summaries.size(); ++i) {
            const Line* line = row.lines[i];
            text += line == nullptr ? fmt::format("  {:>9} {:>10} {:>10}", "-", "-", "-")
                                    : fmt::format("  {:>9} {:>10} {:>10}", line->count, size_text(line->bytes),
                                                  time_text(time_of_rank(summaries[i], line)));
        }
        text += "\n";
    }
    return text + "  Calls and data are summed over ranks. What differs most in time comes first.\n";
}

}  // namespace swy::report
