// A whole job's report as data, and its two forms: a table for people and a JSON object for programs. report.cpp makes
// it on rank 0.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "call/reason.hpp"

namespace swy::report {

struct Line {  // summed over ranks
    std::string call;
    Carrier carrier = Carrier::kHost;
    Reason reason = Reason::kNone;
    std::uint64_t count = 0, bytes = 0;
    double seconds = 0;
};

struct Rank {
    std::string host, device;  // device: "" when the rank used none
};

// Counts of NCCL communicators, pair communicators included. Each rank counts its own part of each communicator; the
// report sums over ranks.
struct Communicators {
    long made = 0, reused = 0, evicted = 0;
    long live_max = 0;  // the most at any time on each rank
};

struct Summary {
    std::string switchyard, mpi, nccl, driver;  // versions; "" where not loaded on any rank, "A; B" where ranks differ
    std::string kernels;                        // why some rank could not load the library's kernels; "" without
    std::string tools_above, tools_below;       // tools that wrap MPI, above and below Switchyard; "" without
    std::string tuning;                         // the tuning file and whether it was used; "" without one
    std::string cut_short;  // of a job that did not come to MPI_Finalize: what has ended it, and whose calls these are
    std::vector<Rank> ranks;
    std::vector<Line> lines;
    Communicators communicators;
};

std::string as_text(const Summary& summary);  // one screen, for a terminal of 100 columns
std::string as_json(
    const Summary& summary);  // one object, UTF-8 (other bytes in names are replaced), ends in a newline

// Reads what as_json() wrote. Returns "" or the error; the summary is then unspecified.
std::string from_json(const std::string& text, Summary& summary);

// Shows several runs side by side, call by call; the largest differences in time come first. `names` are those of the
// files.
std::string compared(std::span<const Summary> summaries, std::span<const std::string> names);

}  // namespace swy::report
