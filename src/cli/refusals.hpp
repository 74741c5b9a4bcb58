// What mpirun is known to refuse. Its own message names options of its own command line, and does not know ours.
#pragma once

#include <string>
#include <vector>

#include "cli/launch.hpp"

namespace swy::cli {

// Each with what to add. Only what is sure enough: a hint before a job that runs is a nuisance.
std::vector<std::string> expected_refusals(const Wishes& wishes, const Environment& environment);

}  // namespace swy::cli
