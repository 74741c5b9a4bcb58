// Computes from the times of `switchyard tune` the size from which NCCL is faster for each call, as a table for people
// and as the file that SWITCHYARD_TUNING names. Functions without side effects.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

namespace swy::cli {

struct Point {  // one call with one size, in seconds; 0: not measured
    double staged = 0, nccl = 0;
};
using Points = std::map<std::size_t, Point>;  // by bytes

struct TunedMachine {
    std::string gpu, nccl, host;
    int ranks = 0, nodes = 0;
    bool is_virtual = false;
};

struct Measurements {
    TunedMachine machine;
    std::map<std::string, Points> calls;
    std::map<std::string, std::string> not_over_nccl;  // why a call could not be measured, by its name
};

// Returns the smallest measured size such that NCCL is faster for it and for all larger ones; kNever where it is not
// faster for the largest.
std::size_t crossing(const Points& points);

std::string tuning_json(const Measurements& all);
std::string tuning_text(const Measurements& all);

}  // namespace swy::cli
