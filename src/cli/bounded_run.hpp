// Runs another program and waits for it, up to a limit in seconds. For `switchyard doctor` and `switchyard tune`.
#pragma once

#include <functional>
#include <string>

#include "cli/launch.hpp"

namespace swy::cli {

struct Ended {
    int status = 0;  // as the shell has it: 128 and the signal's number where one ended it
    bool late = false;
    std::string output;  // both streams, its last lines
};

// Runs the program in a process group of its own, which is ended as a whole when the time has passed. Calls `meanwhile`
// between waits.
Ended run_bounded(const Launch& launch, double seconds, const std::function<void()>& meanwhile = {});

}  // namespace swy::cli
