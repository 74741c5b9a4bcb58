// Contexts of programs and the calling thread's current one.
#include "vgpu/core/settings.hpp"
#include "vgpu/cuda/capture.hpp"
#include "vgpu/cuda/release.hpp"

using namespace vgpu;
using namespace vgpu::cuda;

namespace {

CUresult create(CUcontext* out, unsigned flags, CUdevice device) {
    if (out == nullptr || (flags & ~static_cast<unsigned>(CU_CTX_FLAGS_MASK)) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (!devices().valid(device))
        return CUDA_ERROR_INVALID_DEVICE;
    Context* const context = create_context(devices()[device], flags);
    push_context(context);
    *out = handle(context);
    return CUDA_SUCCESS;
}

CUresult destroy(CUcontext given) {
    Context* const context = context_of(given);
    if (context == nullptr)
        return given == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_CONTEXT;
    if (context->primary())
        return CUDA_ERROR_INVALID_CONTEXT;
    release_context(*context);
    Context* popped = nullptr;
    if (current_context() == context)
        pop_context(&popped);
    return CUDA_SUCCESS;
}

CUresult push(CUcontext given) {
    if (given == nullptr)
        return CUDA_ERROR_INVALID_VALUE;
    Context* const context = context_of(given);
    if (context == nullptr)
        return CUDA_ERROR_INVALID_CONTEXT;
    push_context(context);
    return CUDA_SUCCESS;
}

CUresult pop(CUcontext* out) {
    Context* popped = nullptr;
    if (!pop_context(&popped))
        return CUDA_ERROR_INVALID_CONTEXT;
    if (out != nullptr)
        *out = handle(popped);
    return CUDA_SUCCESS;
}

}  // namespace

CUresult cuCtxCreate_v2(CUcontext* out, unsigned int flags, CUdevice device) {
    VGPU_ENTER(cuCtxCreate, Needs::Init);
    return create(out, flags, device);
}

CUresult cuCtxCreate_v3(CUcontext* out, CUexecAffinityParam*, int affinities, unsigned int flags, CUdevice device) {
    VGPU_ENTER(cuCtxCreate, Needs::Init);
    return affinities == 0 ? create(out, flags, device) : CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
}

CUresult cuCtxCreate_v4(CUcontext* out, CUctxCreateParams* parameters, unsigned int flags, CUdevice device) {
    VGPU_ENTER(cuCtxCreate, Needs::Init);
    if (parameters != nullptr && parameters->numExecAffinityParams != 0)
        return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
    if (parameters != nullptr && parameters->cigParams != nullptr)
        return CUDA_ERROR_NOT_SUPPORTED;
    return create(out, flags, device);
}

CUresult cuCtxDestroy(CUcontext context) {
    VGPU_ENTER(cuCtxDestroy, Needs::Init);
    return destroy(context);
}

CUresult cuCtxDestroy_v2(CUcontext context) {
    VGPU_ENTER(cuCtxDestroy, Needs::Init);
    return destroy(context);
}

CUresult cuCtxPushCurrent(CUcontext context) {
    VGPU_ENTER(cuCtxPushCurrent, Needs::Init);
    return push(context);
}

CUresult cuCtxPushCurrent_v2(CUcontext context) {
    VGPU_ENTER(cuCtxPushCurrent, Needs::Init);
    return push(context);
}

CUresult cuCtxPopCurrent(CUcontext* context) {
    VGPU_ENTER(cuCtxPopCurrent, Needs::Init);
    return pop(context);
}

CUresult cuCtxPopCurrent_v2(CUcontext* context) {
    VGPU_ENTER(cuCtxPopCurrent, Needs::Init);
    return pop(context);
}

CUresult cuCtxSetCurrent(CUcontext given) {
    VGPU_ENTER(cuCtxSetCurrent, Needs::Init);
    Context* const context = context_of(given);
    if (given != nullptr && context == nullptr)
        return CUDA_ERROR_INVALID_CONTEXT;
    set_current_context(context);
    return CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext* context) {
    VGPU_ENTER(cuCtxGetCurrent, Needs::Init);
    if (context == nullptr)
        return CUDA_ERROR_INVALID_VALUE;
    *context = handle(current_context());
    return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice(CUdevice* device) {
    VGPU_ENTER(cuCtxGetDevice, Needs::Context);
    if (device == nullptr)
        return CUDA_ERROR_INVALID_VALUE;
    *device = entry.context().device().ordinal;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice_v2(CUdevice* device, CUcontext given) {
    VGPU_ENTER(cuCtxGetDevice, Needs::Init);
    Context* const context = given == nullptr ? current_context() : context_of(given);
    if (device == nullptr)
        return CUDA_ERROR_INVALID_VALUE;
    if (context == nullptr)
        return CUDA_ERROR_INVALID_CONTEXT;
    *device = context->device().ordinal;
    return CUDA_SUCCESS;
}

CUresult cuCtxSynchronize(void) {
    VGPU_ENTER(cuCtxSynchronize, Needs::Context);
    if (const CUresult result = admit(entry.context()); result != CUDA_SUCCESS)
        return result;
    log_wait(entry.name(), nullptr);
    entry.context().synchronize();
    return failure_of(entry.context());
}

CUresult cuCtxSynchronize_v2(CUcontext given) {
    VGPU_ENTER(cuCtxSynchronize, Needs::Init);
    Context* const context = given == nullptr ? current_context() : context_of(given);
    if (context == nullptr)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (const CUresult result = admit(*context); result != CUDA_SUCCESS)
        return result;
    log_wait(entry.name(), nullptr);
    context->synchronize();
    return failure_of(*context);
}

CUresult cuCtxGetApiVersion(CUcontext given, unsigned int* version) {
    VGPU_ENTER(cuCtxGetApiVersion, Needs::Init);
    if (version == nullptr)
        return CUDA_ERROR_INVALID_VALUE;
    if ((given == nullptr ? current_context() : context_of(given)) == nullptr)
        return CUDA_ERROR_INVALID_CONTEXT;
    *version = 3020;  // that of cuCtxCreate_v2, as the real driver says for all contexts made since
    return CUDA_SUCCESS;
}

CUresult cuCtxGetId(CUcontext given, unsigned long long* id) {
    VGPU_ENTER(cuCtxGetId, Needs::Init);
    Context* const context = given == nullptr ? current_context() : context_of(given);
    if (context == nullptr)
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    if (id == nullptr)
        return CUDA_ERROR_INVALID_VALUE;
    *id = context->id();
    return CUDA_SUCCESS;
}

CUresult cuCtxGetFlags(unsigned int* flags) {
    VGPU_ENTER(cuCtxGetFlags, Needs::Context);
    if (flags == nullptr)
        return CUDA_ERROR_INVALID_VALUE;
    *flags = entry.context().flags.load();
    return CUDA_SUCCESS;
}

CUresult cuCtxSetFlags(unsigned int flags) {
    VGPU_ENTER(cuCtxSetFlags, Needs::Context);
    if ((flags & ~static_cast<unsigned>(CU_CTX_FLAGS_MASK)) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    entry.context().flags = flags;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetStreamPriorityRange(int* least, int* greatest) {
    VGPU_ENTER(cuCtxGetStreamPriorityRange, Needs::Context);
    if (least != nullptr)
        *least = kLeastPriority;
    if (greatest != nullptr)
        *greatest = kGreatestPriority;
    return CUDA_SUCCESS;
}

CUresult cuCtxEnablePeerAccess(CUcontext given, unsigned int flags) {
    VGPU_ENTER(cuCtxEnablePeerAccess, Needs::Context);
    Context* const peer = context_of(given);
    if (flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (peer == nullptr || peer == &entry.context())
        return CUDA_ERROR_INVALID_CONTEXT;
    if (&peer->device() == &entry.context().device() || !settings().peers)
        return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
    return entry.context().enable_peer(*peer) ? CUDA_SUCCESS : CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
}

CUresult cuCtxDisablePeerAccess(CUcontext given) {
    VGPU_ENTER(cuCtxDisablePeerAccess, Needs::Context);
    Context* const peer = context_of(given);
    if (peer == nullptr)
        return CUDA_ERROR_INVALID_CONTEXT;
    return entry.context().disable_peer(*peer) ? CUDA_SUCCESS : CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
}
