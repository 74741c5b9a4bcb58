#include "vgpu/nccl/entry.hpp"

#include <array>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>

#include <unistd.h>

#include "vgpu/nccl/debug.hpp"
#include "vgpu/nccl/settings.hpp"
#include "vgpu/private.h"

namespace vgpu::nccl {
namespace {

constexpr std::array<const char*, ncclNumResults> kNames{
    "ncclSuccess",         "ncclUnhandledCudaError", "ncclSystemError", "ncclInternalError",
    "ncclInvalidArgument", "ncclInvalidUsage",       "ncclRemoteError", "ncclInProgress"};

ncclResult_t result_named(const char* name) {
    for (std::size_t i = 0; i < kNames.size(); ++i)
        if (std::strcmp(name, kNames[i]) == 0)
            return static_cast<ncclResult_t>(i);
    if (std::strncmp(name, "CUDA_ERROR_", 11) == 0)
        return ncclUnhandledCudaError;
    report(std::string("VGPU_FAULTS: ") + name + " is not a result of NCCL; ncclInternalError is given");
    return ncclInternalError;
}

}  // namespace

Entry enter(const char* function, int since) {
    if (settings().version < since) {
        warn("%s is not in NCCL %d (VGPU_NCCL_VERSION)", function, settings().version);
        return {ncclInvalidUsage, false};
    }
    const char* name = nullptr;
    switch (vgpu_fault(function, &name)) {
        case kVgpuFaultHang:
            return {ncclSuccess, true};
        case kVgpuFaultError: {
            const ncclResult_t result = result_named(name);
            if (result != ncclSuccess)
                warn("%s: %s, as VGPU_FAULTS asks", function, name);
            return {result, false};
        }
        case kVgpuFaultNone:
            break;
    }
    return {};
}

ncclResult_t enter_at_once(const char* function, int since) {
    const Entry entry = enter(function, since);
    while (entry.hang)
        pause();
    return entry.result;
}

ncclResult_t communicator_of(ncclComm_t handle, const char* function, CommunicatorPtr& out) {
    if (handle == nullptr) {
        warn("%s : comm argument is NULL", function + 4);
        return ncclInvalidArgument;
    }
    out = find(handle);
    if (out)
        return ncclSuccess;
    warn("%s : corrupted comm object detected: it was destroyed, aborted or never made", function + 4);
    return ncclInvalidArgument;
}

ncclResult_t not_null(const void* pointer, const char* function, const char* argument) {
    if (pointer != nullptr)
        return ncclSuccess;
    warn("%s : %s argument is NULL", function + 4, argument);
    return ncclInvalidArgument;
}

ncclResult_t wait_until_abandoned(const Communicator& communicator) {
    while (!communicator.stop()->load())
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return ncclInternalError;
}

}  // namespace vgpu::nccl
