// Another program, started and waited for no longer than so many seconds. For the checks of `switchyard doctor` and for
// `switchyard tune`.
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

// In a process group of its own, which is ended as a whole when the time has passed. `meanwhile` is called now and
// then.
Ended run_bounded(const Launch& launch, double seconds, const std::function<void()>& meanwhile = {});

}  // namespace swy::cli
