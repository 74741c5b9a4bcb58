// cuInit and the driver's version.
#include <mutex>

#include "vgpu/core/kernels.hpp"
#include "vgpu/core/settings.hpp"
#include "vgpu/cuda/api.hpp"
#include "vgpu/cuda/init.hpp"

using namespace vgpu;
using namespace vgpu::cuda;

namespace {

bool is_error(std::string_view name) {
    CUresult error{};
    return error_by_name(name, error);
}

}  // namespace

void vgpu::cuda::report(const std::vector<std::string>& complaints) {
    if (complaints.empty())
        return;
    static std::once_flag once;
    std::call_once(once, [&] {
        for (const std::string& line : complaints)
            say(line);
    });
}

CUresult cuInit(unsigned int flags) {
    VGPU_ENTER(cuInit, Needs::Nothing);
    if (flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (life() == Life::Forked)
        return CUDA_ERROR_NOT_INITIALIZED;
    if (life() == Life::Ended)
        return CUDA_ERROR_DEINITIALIZED;
    if (life() == Life::Running)
        return CUDA_SUCCESS;
    std::vector<std::string> complaints = settings().complaints;
    const std::vector<std::string> faults = check_faults(known_function, is_error);
    complaints.insert(complaints.end(), faults.begin(), faults.end());
    load_kernel_libraries(complaints);
    const int count = complaints.empty() ? start(complaints) : 0;
    report(complaints);
    if (!complaints.empty())
        return CUDA_ERROR_INVALID_VALUE;
    return count == 0 ? CUDA_ERROR_NO_DEVICE : CUDA_SUCCESS;
}

CUresult cuDriverGetVersion(int* version) {
    VGPU_ENTER(cuDriverGetVersion, Needs::Nothing);
    if (version == nullptr)
        return CUDA_ERROR_INVALID_VALUE;
    *version = settings().driver;
    return CUDA_SUCCESS;
}
