#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <vector>

#include "report/compare.hpp"
#include "report/figures.hpp"
#include "report/summary.hpp"
#include "report/units.hpp"

namespace swy::report {

double time_of_rank(const Summary& summary, const Line* line) {
    return line == nullptr ? 0 : line->seconds / static_cast<double>(summary.ranks.size());
}

std::vector<std::pair<RouteKey, ComparedRow>> rows_of(std::span<const Summary> summaries) {
    std::map<RouteKey, ComparedRow> rows;
    for (std::size_t i = 0; i < summaries.size(); ++i)
        for (const Line& line : summaries[i].lines) {
            ComparedRow& row = rows[{line.call, line.carrier, line.reason}];
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
    std::vector<std::pair<RouteKey, ComparedRow>> sorted(rows.begin(), rows.end());
    std::stable_sort(sorted.begin(), sorted.end(),
                     [](const auto& a, const auto& b) { return a.second.spread > b.second.spread; });
    return sorted;
}

namespace {

std::string heading(std::span<const Summary> summaries, std::span<const std::string> names, const Form& form) {
    std::string text;
    for (std::size_t i = 0; i < summaries.size(); ++i) {
        const Summary& s = summaries[i];
        std::string line = fmt::format("[{}] {}: Switchyard {}, {}, {}{}{}", i + 1, names[i], s.switchyard,
                                       plural(s.ranks.size(), "rank"), s.mpi.empty() ? "unknown MPI" : s.mpi,
                                       s.nccl.empty() ? "" : ", NCCL ", s.nccl);
        if (const std::string run = run_in_words(s.run); !run.empty())
            line += "; " + run;
        if (!s.run.settings.empty())
            line += fmt::format("; {}", fmt::join(s.run.settings, ", "));
        text += "  " + wrapped(line, 2, 6, form) + "\n";
    }
    return text;
}

}  // namespace

std::string compared(std::span<const Summary> summaries, std::span<const std::string> names, const Form& form) {
    std::vector<Table::Column> columns = {{"call", true}, {"transport", true}, {"why", true}};
    for (std::size_t i = 0; i < summaries.size(); ++i)
        columns.insert(columns.end(),
                       {{fmt::format("calls [{}]", i + 1), false, 1}, {"data", false, 2}, {"time/rank"}});
    Table table(columns);
    for (const auto& [key, row] : rows_of(summaries)) {
        const auto& [call, carrier, reason] = key;
        const bool has_data = !waits_or_tests(call);
        std::vector<Table::Cell> cells = {{call},
                                          {std::string(has_data ? name(carrier) : "")},
                                          {std::string(reason == Reason::kNone ? "" : name(reason))}};
        for (std::size_t i = 0; i < summaries.size(); ++i) {
            const Line* const line = row.lines[i];
            cells.push_back({line == nullptr ? "-" : std::to_string(line->count)});
            cells.push_back({line == nullptr || !has_data ? "-" : size_text(line->bytes)});
            cells.push_back({line == nullptr ? "-" : time_text(time_of_rank(summaries[i], line))});
        }
        table.add(std::move(cells));
    }
    return heading(summaries, names, form) + "\n" + table.as_text(form) + "  " +
           wrapped("Calls and data are summed over ranks. What differs most in time comes first.", 2, 2, form) + "\n";
}

}  // namespace swy::report
