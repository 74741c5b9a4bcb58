// The reasons in a report that kept device memory off NCCL and that the user can change, the costliest first.
#pragma once

#include <cstdint>
#include <vector>

#include "report/summary.hpp"

namespace swy::report {

struct Advice {
    Reason reason;
    std::uint64_t count = 0, bytes = 0;
    double seconds = 0;
};
std::vector<Advice> advice_for(const Summary& summary);

}  // namespace swy::report
