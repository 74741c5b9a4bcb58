// NVML: initialisation, errors, versions.
#include <iterator>
#include <string>

#include "vgpu/nvml/node.hpp"

using namespace vgpu::nvml;

namespace {

struct Release {
    int cuda;  // as cuDriverGetVersion gives it
    const char* driver;
};

// The drivers that came with CUDA's releases (CUDA's release notes, table of driver versions).
constexpr Release kReleases[] = {{11000, "450.51.05"}, {11010, "455.23.04"}, {11020, "460.27.03"}, {11030, "465.19.01"},
                                 {11040, "470.42.01"}, {11050, "495.29.05"}, {11060, "510.39.01"}, {11070, "515.43.04"},
                                 {11080, "520.61.05"}, {12000, "525.60.13"}, {12010, "530.30.02"}, {12020, "535.54.03"},
                                 {12030, "545.23.06"}, {12040, "550.54.14"}, {12050, "555.42.02"}, {12060, "560.28.03"},
                                 {12080, "570.26"},    {12090, "575.51.03"}, {13000, "580.65.06"}};

const char* driver_release() {
    const int cuda = vgpu_node_get().driver;
    const Release* found = std::begin(kReleases);
    for (const Release& release : kReleases)
        if (release.cuda <= cuda)
            found = &release;
    return found->driver;
}

nvmlReturn_t start() {
    return open() ? NVML_SUCCESS : NVML_ERROR_DRIVER_NOT_LOADED;
}

nvmlReturn_t cuda_version(int* version) {
    if (version == nullptr)
        return NVML_ERROR_INVALID_ARGUMENT;
    *version = vgpu_node_get().driver;
    return NVML_SUCCESS;
}

}  // namespace

nvmlReturn_t nvmlInit() {
    return start();
}

nvmlReturn_t nvmlInit_v2() {
    return start();
}

// NVML_INIT_FLAG_NO_GPUS and NVML_INIT_FLAG_NO_ATTACH change nothing here.
nvmlReturn_t nvmlInitWithFlags(unsigned int) {
    return start();
}

nvmlReturn_t nvmlShutdown() {
    return close() ? NVML_SUCCESS : NVML_ERROR_UNINITIALIZED;
}

const char* nvmlErrorString(nvmlReturn_t result) {
    switch (result) {
        case NVML_SUCCESS:
            return "The operation was successful";
        case NVML_ERROR_UNINITIALIZED:
            return "NVML was not initialized";
        case NVML_ERROR_INVALID_ARGUMENT:
            return "An argument is not valid";
        case NVML_ERROR_NOT_SUPPORTED:
            return "Not supported";
        case NVML_ERROR_NO_PERMISSION:
            return "No permission";
        case NVML_ERROR_ALREADY_INITIALIZED:
            return "Already initialized";
        case NVML_ERROR_NOT_FOUND:
            return "Not found";
        case NVML_ERROR_INSUFFICIENT_SIZE:
            return "The buffer is too small";
        case NVML_ERROR_DRIVER_NOT_LOADED:
            return "The driver is not loaded";
        case NVML_ERROR_FUNCTION_NOT_FOUND:
            return "Function not found";
        case NVML_ERROR_ARGUMENT_VERSION_MISMATCH:
            return "The structure's version does not match";
        default:
            return "Unknown error";
    }
}

nvmlReturn_t nvmlSystemGetDriverVersion(char* version, unsigned int length) {
    return is_open() ? give(driver_release(), version, length) : NVML_ERROR_UNINITIALIZED;
}

// The version of NVML is CUDA's major version and that of the driver it belongs to.
nvmlReturn_t nvmlSystemGetNVMLVersion(char* version, unsigned int length) {
    const std::string text = std::to_string(vgpu_node_get().driver / 1000) + "." + driver_release();
    return give(text.c_str(), version, length);
}

// Both may be called before nvmlInit.
nvmlReturn_t nvmlSystemGetCudaDriverVersion(int* version) {
    return cuda_version(version);
}

nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int* version) {
    return cuda_version(version);
}
