// From what `switchyard tune` has measured to where NCCL begins to be faster, for people and as the file that
// SWITCHYARD_TUNING names. Plain functions of tables.
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

// The smallest size from which on NCCL is faster for it and all larger ones that were measured; route::kNever where it
// is not for the largest.
std::size_t crossing(const Points& points);

std::string tuning_json(const Measurements& all);
std::string tuning_text(const Measurements& all);

}  // namespace swy::cli
