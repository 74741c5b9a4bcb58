// A whole job's report as data, and its two faces: a table for people and a JSON object for machines. Made by
// report.cpp on rank 0.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "route/reason.hpp"

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

// NCCL's, lanes of messages included. Each rank has its own part of each and counts that; sums over ranks.
struct Communicators {
    long made = 0;  // `split` of these by ncclCommSplit
    long split = 0;
    long reused = 0, evicted = 0;
    long live_max = 0;  // the most at any time on each rank
};

struct Summary {
    std::string switchyard, mpi, nccl, driver;  // versions; "" where not loaded on any rank, "A; B" where ranks differ
    std::string tuning;                         // the tuning file and what became of it; "" without one
    std::vector<Rank> ranks;
    std::vector<Line> lines;
    Communicators communicators;
};

std::string as_text(const Summary& summary);  // one screen, for a terminal of 100 columns
std::string as_json(
    const Summary& summary);  // one object, UTF-8 (other bytes in names are replaced), ends in a newline

// What as_json() wrote. Returns "" or what is wrong; the summary is then of no use.
std::string from_json(const std::string& text, Summary& summary);

// Several runs side by side, call by call; what differs most in time comes first. `names` are those of the files.
std::string compared(std::span<const Summary> summaries, std::span<const std::string> names);

}  // namespace swy::report
