// The jobs of this host as their processes' flight recorders show them (flights.hpp), in words and as JSON.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "cli/json.hpp"
#include "report/flights.hpp"
#include "report/summary.hpp"

namespace swy::cli {

struct Job {
    std::string name;
    std::vector<const report::Flight*> flights;  // by rank; never empty

    bool lives() const;                                            // does any of its processes?
    bool is_one_of(const std::vector<std::string>& wanted) const;  // jobs' names, or numbers of their processes
    bool waits() const;                                            // is, or was, any process in an operation?
    double age() const;                                            // seconds since something was recorded
};

std::vector<Job> jobs_of(const std::vector<report::Flight>& flights);

// What each rank is in, and what follows for the job; with `last` not 0 the last ones of each rank. Lines.
std::string in_words(const Job& job, std::size_t last);
Json as_json(const std::vector<Job>& jobs);

// The report of the calls that the job's processes here have made so far; without lines where none are counted.
report::Summary report_of(const Job& job);
bool counts_calls(const Job& job);

}  // namespace swy::cli
