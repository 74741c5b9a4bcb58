// Primary contexts, which the runtime API and every well-mannered library share.
#include "vgpu/cuda/release.hpp"

using namespace vgpu;
using namespace vgpu::cuda;

namespace {

CUresult release(CUdevice device) {
    if (!devices().valid(device))
        return CUDA_ERROR_INVALID_DEVICE;
    Primary& primary = primary_of(devices()[device]);
    const std::lock_guard guard(primary.lock);
    if (primary.retained == 0)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (--primary.retained == 0)
        release_context(*primary.context);
    return CUDA_SUCCESS;
}

CUresult reset(CUdevice device) {
    if (!devices().valid(device))
        return CUDA_ERROR_INVALID_DEVICE;
    Primary& primary = primary_of(devices()[device]);
    const std::lock_guard guard(primary.lock);
    if (primary.context != nullptr)
        release_context(*primary.context);
    primary.retained = 0;
    return CUDA_SUCCESS;
}

CUresult set_flags(CUdevice device, unsigned flags) {
    if (!devices().valid(device))
        return CUDA_ERROR_INVALID_DEVICE;
    if ((flags & ~static_cast<unsigned>(CU_CTX_FLAGS_MASK)) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    Primary& primary = primary_of(devices()[device]);
    const std::lock_guard guard(primary.lock);
    primary.flags = flags;
    if (primary.context != nullptr)
        primary.context->flags = flags;
    return CUDA_SUCCESS;
}

}  // namespace

CUresult cuDevicePrimaryCtxRetain(CUcontext* out, CUdevice device) {
    VGPU_ENTER(cuDevicePrimaryCtxRetain, Needs::Init);
    if (out == nullptr)
        return CUDA_ERROR_INVALID_VALUE;
    if (!devices().valid(device))
        return CUDA_ERROR_INVALID_DEVICE;
    Primary& primary = primary_of(devices()[device]);
    const std::lock_guard guard(primary.lock);
    Context& context = primary_context(primary, devices()[device]);
    context.activate();
    ++primary.retained;
    *out = handle(&context);
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease(CUdevice device) {
    VGPU_ENTER(cuDevicePrimaryCtxRelease, Needs::Init);
    return release(device);
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
    VGPU_ENTER(cuDevicePrimaryCtxRelease, Needs::Init);
    return release(device);
}

CUresult cuDevicePrimaryCtxReset(CUdevice device) {
    VGPU_ENTER(cuDevicePrimaryCtxReset, Needs::Init);
    return reset(device);
}

CUresult cuDevicePrimaryCtxReset_v2(CUdevice device) {
    VGPU_ENTER(cuDevicePrimaryCtxReset, Needs::Init);
    return reset(device);
}

CUresult cuDevicePrimaryCtxSetFlags(CUdevice device, unsigned int flags) {
    VGPU_ENTER(cuDevicePrimaryCtxSetFlags, Needs::Init);
    return set_flags(device, flags);
}

CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned int flags) {
    VGPU_ENTER(cuDevicePrimaryCtxSetFlags, Needs::Init);
    return set_flags(device, flags);
}

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned int* flags, int* active) {
    VGPU_ENTER(cuDevicePrimaryCtxGetState, Needs::Init);
    if (!devices().valid(device))
        return CUDA_ERROR_INVALID_DEVICE;
    Primary& primary = primary_of(devices()[device]);
    const std::lock_guard guard(primary.lock);
    if (flags != nullptr)
        *flags = primary.flags;
    if (active != nullptr)
        *active = primary.context != nullptr && primary.context->active() ? 1 : 0;
    return CUDA_SUCCESS;
}
