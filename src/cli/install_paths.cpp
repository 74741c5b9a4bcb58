#include "cli/install_paths.hpp"

#include <unistd.h>

#include <cstdlib>
#include <system_error>

namespace swy::cli {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kLibrary = "libswitchyard.so";
constexpr std::string_view kExchange = "switchyard-exchange";
constexpr std::string_view kMeasure = "switchyard-measure";

bool is_there(const fs::path& path) {
    std::error_code ignored;
    return fs::exists(path, ignored);
}

Found try_file(const fs::path& path) {
    std::error_code ignored;
    if (!fs::exists(path, ignored) || fs::is_directory(path, ignored))
        return Found::kNo;
    return access(path.c_str(), X_OK) == 0 ? Found::kYes : Found::kNotExecutable;
}

}  // namespace

InstallPaths find_install_paths() {
    InstallPaths paths;
    std::error_code problem;
    paths.command = fs::read_symlink("/proc/self/exe", problem);
    const fs::path here = paths.command.parent_path();
    // A build folder has configure's traces beside the command; there the library is in libtool's .libs.
    if (is_there(here / "config.status")) {
        paths.expected_library = here / ".libs" / kLibrary;
        paths.expected_virtual_gpus = here / "vgpu/lib";
        paths.expected_exchange = here / kExchange;
        paths.expected_measure = here / kMeasure;
    } else {
        const fs::path lib = (here / SWY_LIB_FROM_BIN).lexically_normal();
        paths.expected_library = lib / kLibrary;
        paths.expected_virtual_gpus = lib / "switchyard/vgpu";
        paths.expected_exchange = lib / "switchyard" / kExchange;
        paths.expected_measure = lib / "switchyard" / kMeasure;
    }
    // The name without a version is for linking: a distribution may ship it in its development package alone.
    const fs::path with_version = paths.expected_library.string() + ".1";
    if (is_there(paths.expected_library))
        paths.shim = paths.expected_library;
    else if (is_there(with_version))
        paths.shim = with_version;
    if (is_there(paths.expected_virtual_gpus / "libcuda.so.1"))
        paths.virtual_gpus = paths.expected_virtual_gpus;
    if (is_there(paths.expected_exchange))
        paths.exchange = paths.expected_exchange;
    if (is_there(paths.expected_measure))
        paths.measure = paths.expected_measure;
    return paths;
}

Found find_program(std::string_view name, fs::path& path) {
    if (name.find('/') != std::string_view::npos) {
        path = name;
        return try_file(path);
    }
    const char* variable = std::getenv("PATH");
    std::string_view rest = variable != nullptr ? variable : "/usr/local/bin:/usr/bin:/bin";
    Found best = Found::kNo;
    while (!name.empty()) {
        const std::size_t colon = rest.find(':');
        const fs::path folder = rest.substr(0, colon);
        const fs::path candidate = (folder.empty() ? fs::path(".") : folder) / name;
        const Found found = try_file(candidate);
        if (found != Found::kNo && best == Found::kNo)
            path = candidate;
        if (found == Found::kYes) {
            path = candidate;
            return found;
        }
        best = found == Found::kNo ? best : found;
        if (colon == std::string_view::npos)
            break;
        rest.remove_prefix(colon + 1);
    }
    return best;
}

std::string find_mpirun(const std::string& named) {
    fs::path ignored;
    if (!named.empty())
        return find_program(named, ignored) == Found::kYes ? named : "";
    for (const char* candidate : {"mpirun", SWY_MPIRUN}) {
        if (find_program(candidate, ignored) == Found::kYes)
            return candidate;
    }
    return {};
}

}  // namespace swy::cli
