// Runs another program and waits for it, up to a limit in seconds. For `switchyard doctor`, `status` and `tune`.
#pragma once

#include <cstdlib>
#include <filesystem>
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

// A folder for the files of one job, removed at the end of the scope. `where`: the folder that it is made in.
class Folder {
  public:
    explicit Folder(const std::string& purpose,
                    const std::filesystem::path& where = std::filesystem::temp_directory_path()) {
        std::error_code ignored;
        std::string name = (where / (purpose + "-XXXXXX")).string();
        if (mkdtemp(name.data()) != nullptr)
            path = name;
    }
    ~Folder() {
        std::error_code ignored;
        if (!path.empty())
            std::filesystem::remove_all(path, ignored);
    }
    Folder(const Folder&) = delete;
    Folder& operator=(const Folder&) = delete;
    std::filesystem::path path;  // empty when none could be made
};

}  // namespace swy::cli
