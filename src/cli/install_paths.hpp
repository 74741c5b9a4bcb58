// Where the parts of Switchyard and the programs it starts are. For the switchyard command only.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace swy::cli {

// The parts that belong to this executable, found from its own place: beside it in a build folder, by the configured
// distance between bin and lib otherwise, so that an installation may be moved as a whole.
struct Places {
    std::filesystem::path command;                      // this executable
    std::optional<std::filesystem::path> shim;          // libswitchyard.so
    std::optional<std::filesystem::path> virtual_gpus;  // folder of the virtual libcuda, libcudart and libnccl
    std::optional<std::filesystem::path> exchange;      // switchyard-exchange, of which the doctor starts two ranks
    std::optional<std::filesystem::path> measure;       // switchyard-measure, which tune starts
    // Where they should be.
    std::filesystem::path expected_library, expected_virtual_gpus, expected_exchange, expected_measure;
};
Places find_places();

// As the shell finds a program: a name with a slash is a file, another is looked up in PATH.
enum class Found { kYes, kNotExecutable, kNo };
Found find_program(std::string_view name, std::filesystem::path& path);

// mpirun as a user would type it: the one named, else "mpirun" where PATH has it, else the file that Switchyard was
// configured with. "" when there is none. A name is not made a path: Open MPI takes a path for --prefix and puts its
// own folders in front of the ranks' PATH and LD_LIBRARY_PATH, before a virtual environment's and the virtual GPUs'.
std::string find_mpirun(const std::string& named);

}  // namespace swy::cli
