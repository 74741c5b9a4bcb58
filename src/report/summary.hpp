// A whole job's report as data, and its two forms: a table for people and a JSON object for programs. report.cpp makes
// it on rank 0.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "call/reason.hpp"
#include "report/counter_table.hpp"
#include "report/table.hpp"

namespace swy::report {

struct OfRank {  // a rank's time in calls
    double seconds = 0;
    int rank = -1;  // -1: not known
};

struct Line {  // summed over ranks
    std::string call;
    Carrier carrier = Carrier::kHost;
    Reason reason = Reason::kNone;
    std::uint64_t count = 0, bytes = 0;
    double seconds = 0;
    OfRank least = {}, most = {};                      // of all ranks, those without such a call too
    std::array<std::uint64_t, kSizeClasses> counts{};  // by size; all 0 where they are not known
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

struct Run {
    std::string program;  // the command line of rank 0, with quotation marks where a shell needs them; "" not known
    std::string began;    // when MPI_Init ended on rank 0: ISO 8601, with the time zone; "" not known
    double seconds = 0;   // from then to the report, of the rank that took longest; 0 not known
    std::vector<std::string> settings;  // "NAME=value" of rank 0 for those that are not their defaults
};

struct Summary {
    Run run;
    std::string switchyard, mpi, nccl, driver;  // versions; "" where not loaded on any rank, "A; B" where ranks differ
    std::string kernels;                        // why some rank could not load the library's kernels; "" without
    std::string tools_above, tools_below;       // tools that wrap MPI, above and below Switchyard; "" without
    std::string tuning;                         // the tuning file and whether it was used; "" without one
    std::string cut_short;  // of a job that did not come to MPI_Finalize: what has ended it, and whose calls these are
    std::vector<Rank> ranks;
    std::vector<Line> lines;
    Communicators communicators;
};

// One screen, as wide as `form` says where words do not need more.
std::string as_text(const Summary& summary, const Form& form);
std::string as_json(
    const Summary& summary);  // one object, UTF-8 (other bytes in names are replaced), ends in a newline

// Reads what as_json() wrote. Returns "" or the error; the summary is then unspecified.
std::string from_json(const std::string& text, Summary& summary);

// Shows several runs side by side, call by call; the largest differences in time come first. `names` are those of the
// files.
std::string compared(std::span<const Summary> summaries, std::span<const std::string> names, const Form& form);

// Tells whether the call has no data of its own: those that complete requests, and MPI_Barrier.
bool waits_or_tests(std::string_view call);

}  // namespace swy::report
