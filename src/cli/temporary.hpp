// A folder for the files of one job, removed at the end of the scope. For the subcommands that start jobs.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

namespace swy::cli {

class Folder {
  public:
    explicit Folder(const std::string& purpose) {
        std::error_code ignored;
        std::string name = (std::filesystem::temp_directory_path(ignored) / (purpose + "-XXXXXX")).string();
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
