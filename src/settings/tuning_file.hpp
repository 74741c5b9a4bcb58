// The file that `switchyard tune` writes and SWITCHYARD_TUNING names: from how many bytes on NCCL is faster than
// staging, for each collective, on one kind of machine. switchyard-tune(1) describes it. No MPI here: the command
// compiles this too.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace swy::settings {

inline constexpr std::size_t kNever = SIZE_MAX;  // null in the file: NCCL is not faster for any size that was measured

struct TunedCall {
    std::string name;  // "MPI_Allreduce": a blocking collective that has a route over NCCL
    std::size_t threshold = 0;
};

struct TuningFile {
    std::string gpu;   // as the driver names it
    std::string nccl;  // "2.28.9"
    int ranks = 0, nodes = 0;
    bool is_virtual = false;
    std::vector<TunedCall> calls;
};

// Returns whether a tuning file may have a threshold for the call of this name.
bool can_be_tuned(const std::string& name);

// Converts "2.28.9" to NCCL's version code, 22809; returns 0 for a text that is no version.
int nccl_code(const std::string& version);

// Returns "" or what is wrong, with the file's name and the line.
std::string read_tuning(const std::string& path, TuningFile& into);
std::string parse_tuning(const std::string& path, const std::string& text, TuningFile& into);

}  // namespace swy::settings
