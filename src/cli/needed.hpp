// The libraries that a program would be started with, and what `switchyard doctor` finds in them.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/checks.hpp"

namespace swy::cli {

struct Needed {
    std::string name, file;  // file: "" where it was not found
};

// Returns the libraries that the dynamic linker would load, in its order, without LD_PRELOAD. Empty for a file that is
// no dynamically linked program.
std::vector<Needed> needed_by(const std::string& program);

// Returns the first library whose file name has this prefix; null where there is none.
const Needed* find(const std::vector<Needed>& all, std::string_view start);

// Checks for NVIDIA's CUDA runtime in the program or a library of it, where the driver is the virtual GPUs': these do
// not have the private interfaces that it needs, and replace it only in a program that has a symbol table.
std::optional<Check> look_for_nvidias_runtime(const Patient& patient, const std::string& program,
                                              const std::vector<Needed>& all);

// Checks tools that wrap MPI's functions: those that the dynamic linker puts behind Switchyard see no calls.
std::optional<Check> look_for_profilers(const Patient& patient, const std::string& program,
                                        const std::vector<Needed>& all);

}  // namespace swy::cli
