// The counters behind the report: one cell for each call, transport and reason that occurred. add() fills them in;
// report.cpp collects them.
#pragma once

#include <cstdint>
#include <vector>

namespace swy::report {

struct Sum {
    std::uint64_t count = 0, bytes = 0, nanoseconds = 0;
};

// A cell's key: its call, transport and reason in one number, the same on every rank that runs this version.
using Key = std::uint32_t;

struct Cell {
    Key key;
    Sum sum;
};

Key key_of(unsigned call, unsigned carrier, unsigned reason);
unsigned call_of(Key key);
unsigned carrier_of(Key key);
unsigned reason_of(Key key);
Key keys();  // one more than the largest key

std::vector<Cell> snapshot();  // the cells that were ever added to, by ascending key

}  // namespace swy::report
