// Command lines that mpirun is known to refuse. Its own message names its own options, and not those of `switchyard
// run`.
#pragma once

#include <string>
#include <vector>

#include "cli/launch.hpp"

namespace swy::cli {

// Returns a hint for each refusal, with the option to add. Doubtful cases are left out: a hint before a job that runs
// is a nuisance.
std::vector<std::string> expected_refusals(const Wishes& wishes, const Environment& environment);

}  // namespace swy::cli
