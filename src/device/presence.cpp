#include "device/presence.hpp"

#include <glob.h>
#include <unistd.h>

#include <cstdlib>

#include "device/device.hpp"
#include "device/libraries.hpp"

namespace swy::device {

bool driver_files_under(const std::string& root) {
    for (const char* path :
         {"/dev/nvidiactl", "/proc/driver/nvidia/version", "/dev/nvhost-gpu", "/dev/nvhost-ctrl-gpu", "/dev/dxg"})
        if (access((root + path).c_str(), F_OK) == 0)
            return true;
    glob_t found{};
    const bool any = glob((root + "/dev/nvgpu*").c_str(), GLOB_NOSORT, nullptr, &found) == 0 && found.gl_pathc > 0;
    globfree(&found);
    return any;
}

bool driver_in_path(std::string_view folders) {
    while (!folders.empty()) {
        const std::size_t end = folders.find_first_of(":;");  // ld.so accepts both
        const std::string_view folder = folders.substr(0, end);
        if (!folder.empty() && access((std::string(folder) + "/libcuda.so.1").c_str(), R_OK) == 0)
            return true;
        folders = end == std::string_view::npos ? std::string_view{} : folders.substr(end + 1);
    }
    return false;
}

bool node_has_driver() {
    const char* folders = std::getenv("LD_LIBRARY_PATH");
    return driver_state() != DriverState::kNotLoaded || library_loaded("libcuda.so.1") || driver_files_under("") ||
           driver_in_path(folders != nullptr ? folders : "");
}

}  // namespace swy::device
