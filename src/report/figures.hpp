// What the report's forms for people show, from the summary: the same figures and words in the table and on the page.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "report/summary.hpp"

namespace swy::report {

std::string plural(std::uint64_t number, std::string_view one);

std::string run_in_words(const Run& run);            // "./app 3; began ..., ran 12.30 s"; "" where nothing is known
std::string hosts_in_words(const Summary& summary);  // some of them, in the order of ranks

struct Gpu {
    std::string host, name;
    std::vector<int> ranks;
};
std::vector<Gpu> gpus_of(const Summary& summary);  // those that ranks used, in the order of their first ranks

// The seconds of all ranks in calls that block, MPI_Wait and its like, MPI_Test and its like, and MPI_Barrier.
std::array<std::pair<std::string_view, double>, 4> time_of_calls(const Summary& summary);

// The part that this many seconds of all ranks are of the run, from 0 to 1. The run's time is known.
double share_of_run(const Summary& summary, double seconds);
std::string share_text(double share);
// The same of a line's calls. "" for operations that do not block, whose times from start to completion overlap each
// other and the program's own work, and where the run's time is not known.
std::string share_of_run_text(const Summary& summary, const Line& line);

std::string of_rank_text(const OfRank& time, const Summary& summary);  // "1.20 s (3)"; "" where there is one rank

std::string size_class_text(std::size_t size_class);
std::array<std::uint64_t, kSizeClasses> counts_by_size(const Summary& summary, Carrier carrier);  // calls with data

}  // namespace swy::report
