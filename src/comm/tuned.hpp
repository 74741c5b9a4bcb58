// For which machine the job's tuning table was measured (coll/tuning.hpp), and whether a communicator's ranks are one.
// The same on all ranks: set at MPI_Init, compared with facts that all of them have exchanged.
#pragma once

#include <cstdint>
#include <string>

namespace swy::comm {

struct TunedFor {
    int ranks = 0;  // 0: there is no table
    int nodes = 0;
    std::int32_t nccl_version = 0;
    std::uint64_t gpu = 0;  // call::fnv1a() of its name
};
extern TunedFor tuned_for;

// What all ranks of a communicator have; 0 in `gpu` and `nccl_version` where they differ.
struct Machine {
    int nodes = 0;
    std::int32_t nccl_version = 0;
    std::uint64_t gpu = 0;
};

enum class Fit : std::uint8_t { kNotAsked, kFits, kOther };

// Is the table for such ranks? What speaks against it is kept as text for the report. `gpu_name` is this rank's.
Fit fits(const Machine& machine, const std::string& gpu_name);

// Returns the answer of fits() for the communicator that was set up last among those with the table's number of ranks.
Fit last_fit(std::string& what_differs);

}  // namespace swy::comm
