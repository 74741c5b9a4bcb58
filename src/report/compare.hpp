// The lines of several reports side by side, for the table and for the page.
#pragma once

#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "report/summary.hpp"

namespace swy::report {

using RouteKey = std::tuple<std::string, Carrier, Reason>;

struct ComparedRow {
    std::vector<const Line*> lines;  // by report; null where a report has no such line
    double spread = 0;               // difference between the least and the most time per rank
};

// Those that differ most in time come first. The rows refer to the summaries.
std::vector<std::pair<RouteKey, ComparedRow>> rows_of(std::span<const Summary> summaries);

double time_of_rank(const Summary& summary, const Line* line);  // the mean of the ranks; 0 without a line

}  // namespace swy::report
