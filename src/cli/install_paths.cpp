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

Places find_places() {
    Places places;
    std::error_code problem;
    places.command = fs::read_symlink("/proc/self/exe", problem);
    const fs::path here = places.command.parent_path();
    // A build folder has configure's traces beside the command; there the library is in libtool's .libs.
    if (is_there(here / "config.status")) {
        places.expected_library = here / ".libs" / kLibrary;
        places.expected_virtual_gpus = here / "vgpu/lib";
        places.expected_exchange = here / kExchange;
        places.expected_measure = here / kMeasure;
    } else {
        const fs::path lib = (here / fs::path(SWY_LIBDIR).lexically_relative(SWY_BINDIR)).lexically_normal();
        places.expected_library = lib / kLibrary;
        places.expected_virtual_gpus = lib / "switchyard/vgpu";
        places.expected_exchange = lib / "switchyard" / kExchange;
        places.expected_measure = lib / "switchyard" / kMeasure;
    }
    // The name without a version is for linking: a distribution may have it in a package of its own.
    const fs::path with_version = places.expected_library.string() + ".1";
    if (is_there(places.expected_library))
        places.shim = places.expected_library;
    else if (is_there(with_version))
        places.shim = with_version;
    if (is_there(places.expected_virtual_gpus / "libcuda.so.1"))
        places.virtual_gpus = places.expected_virtual_gpus;
    if (is_there(places.expected_exchange))
        places.exchange = places.expected_exchange;
    if (is_there(places.expected_measure))
        places.measure = places.expected_measure;
    return places;
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
