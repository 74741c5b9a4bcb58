// The counters behind the report: one cell for each call, transport and reason that occurred. add() fills them in;
// report.cpp collects those of a job, and the switchyard command those of a job that has not come to MPI_Finalize.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "report/counter_table.hpp"
#include "report/summary.hpp"

namespace swy::report {

struct Sum {
    std::uint64_t count = 0, bytes = 0, nanoseconds = 0;
    std::array<std::uint64_t, kSizeClasses> counts{};  // by size
};

// A cell's key: its call, transport and reason in one number, the same on every rank that runs this version.
using Key = std::uint32_t;

struct Cell {
    Key key;
    Sum sum;
};

Key keys();                      // one more than the largest key
Line line_of(const Cell& cell);  // without the times of ranks

// From now on add() counts there. Before anything was counted.
void count_in(CounterTable& table);

std::vector<Cell> cells_of(const CounterTable& table);  // those that were ever added to, by ascending key
std::vector<Cell> snapshot();                           // of this process

}  // namespace swy::report
