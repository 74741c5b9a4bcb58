// Paths of the parts of Switchyard and of the programs that it starts. For the switchyard command only.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace swy::cli {

// The parts that belong to this executable, found relative to its own path: beside it in a build folder, else by the
// configured relative path from bin to lib, so that an installation may be moved as a whole.
struct InstallPaths {
    std::filesystem::path command;                      // this executable
    std::optional<std::filesystem::path> shim;          // libswitchyard.so
    std::optional<std::filesystem::path> virtual_gpus;  // folder of the virtual libcuda, libcudart and libnccl
    std::optional<std::filesystem::path> exchange;      // switchyard-exchange, of which the doctor starts two ranks
    std::optional<std::filesystem::path> measure;       // switchyard-measure, which tune starts
    // Paths at which these are expected, for messages.
    std::filesystem::path expected_library, expected_virtual_gpus, expected_exchange, expected_measure;
};
InstallPaths find_install_paths();

// Finds a program as the shell does: a name with a slash is a file, any other is looked up in PATH.
enum class Found { kYes, kNotExecutable, kNo };
Found find_program(std::string_view name, std::filesystem::path& path);

// mpirun as a user would type it: the one named, else "mpirun" where PATH has it, else the file that Switchyard was
// configured with. "" when there is none. A name is not made a path: Open MPI takes a path for --prefix and puts its
// own folders in front of the ranks' PATH and LD_LIBRARY_PATH, before a virtual environment's and the virtual GPUs'.
std::string find_mpirun(const std::string& named);

}  // namespace swy::cli
