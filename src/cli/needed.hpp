// The libraries that a program would be started with, and what `switchyard doctor` reads in them.
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

// What the dynamic linker would load, in its order, without LD_PRELOAD. Empty for what is no dynamic program.
std::vector<Needed> needed_by(const std::string& program);

// The first library whose file name starts so; null where there is none.
const Needed* find(const std::vector<Needed>& all, std::string_view start);

// NVIDIA's CUDA runtime in the program or a library of it, where the driver is the virtual GPUs': they cannot serve it.
std::optional<Check> look_for_nvidias_runtime(const Patient& patient, const std::string& program,
                                              const std::vector<Needed>& all);

// Tools that wrap MPI's functions, and whether Switchyard leaves them any calls.
std::optional<Check> look_for_profilers(const Patient& patient, const std::string& program,
                                        const std::vector<Needed>& all);

}  // namespace swy::cli
