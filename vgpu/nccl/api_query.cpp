// Queries about communicators, errors and the library.
#include <array>

#include "vgpu/nccl/debug.hpp"
#include "vgpu/nccl/entry.hpp"
#include "vgpu/nccl/settings.hpp"

using namespace vgpu::nccl;

namespace {

// Size, rank and device are known once the communicator is there.
ncclResult_t ask(ncclComm_t comm, const void* out, const char* function, CommunicatorPtr& communicator) {
    ncclResult_t result = enter_at_once(function);
    if (result == ncclSuccess)
        result = communicator_of(comm, function, communicator);
    if (result == ncclSuccess)
        result = not_null(out, function, "out");
    if (result == ncclSuccess && communicator->state() == ncclInProgress && !communicator->family) {
        warn("Attempt to use communicator before the previous operation returned ncclSuccess");
        result = ncclInvalidArgument;
    }
    return result;
}

}  // namespace

VGPU_NCCL_API ncclResult_t ncclGetVersion(int* version) {
    ncclResult_t result = enter_at_once("ncclGetVersion");
    if (result == ncclSuccess)
        result = not_null(version, "ncclGetVersion", "version");
    if (result == ncclSuccess)
        *version = settings().version;
    return result;
}

VGPU_NCCL_API ncclResult_t ncclCommCount(const ncclComm_t comm, int* count) {
    CommunicatorPtr communicator;
    const ncclResult_t result = ask(comm, count, "ncclCommCount", communicator);
    if (result == ncclSuccess)
        *count = communicator->ranks;
    return result;
}

VGPU_NCCL_API ncclResult_t ncclCommCuDevice(const ncclComm_t comm, int* device) {
    CommunicatorPtr communicator;
    const ncclResult_t result = ask(comm, device, "ncclCommCuDevice", communicator);
    if (result == ncclSuccess)
        *device = communicator->device.ordinal;
    return result;
}

VGPU_NCCL_API ncclResult_t ncclCommUserRank(const ncclComm_t comm, int* rank) {
    CommunicatorPtr communicator;
    const ncclResult_t result = ask(comm, rank, "ncclCommUserRank", communicator);
    if (result == ncclSuccess)
        *rank = communicator->rank;
    return result;
}

VGPU_NCCL_API ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* asyncError) {
    CommunicatorPtr communicator;
    ncclResult_t result = enter_at_once("ncclCommGetAsyncError");
    if (result == ncclSuccess)
        result = communicator_of(comm, "ncclCommGetAsyncError", communicator);
    if (result == ncclSuccess)
        result = not_null(asyncError, "ncclCommGetAsyncError", "asyncError");
    if (result == ncclSuccess)
        *asyncError = communicator->state();
    return result;
}

VGPU_NCCL_API const char* ncclGetErrorString(ncclResult_t result) {
    constexpr std::array<const char*, ncclNumResults> kTexts{
        "no error",
        "unhandled cuda error (run with NCCL_DEBUG=INFO for details)",
        "unhandled system error (run with NCCL_DEBUG=INFO for details)",
        "internal error - please report this issue to the NCCL developers",
        "invalid argument (run with NCCL_DEBUG=WARN for details)",
        "invalid usage (run with NCCL_DEBUG=WARN for details)",
        "remote process exited or there was a network error",
        "NCCL operation in progress"};
    return result >= 0 && result < ncclNumResults ? kTexts[static_cast<std::size_t>(result)] : "unknown result code";
}

VGPU_NCCL_API const char* ncclGetLastError(ncclComm_t) {
    return last_error();
}

VGPU_NCCL_API void ncclResetDebugInit() {
    reload_debug_level();
}

VGPU_NCCL_ALIAS(ncclResult_t, ncclGetVersion, int*);
VGPU_NCCL_ALIAS(ncclResult_t, ncclCommCount, const ncclComm_t, int*);
VGPU_NCCL_ALIAS(ncclResult_t, ncclCommCuDevice, const ncclComm_t, int*);
VGPU_NCCL_ALIAS(ncclResult_t, ncclCommUserRank, const ncclComm_t, int*);
VGPU_NCCL_ALIAS(ncclResult_t, ncclCommGetAsyncError, ncclComm_t, ncclResult_t*);
VGPU_NCCL_ALIAS(const char*, ncclGetErrorString, ncclResult_t);
VGPU_NCCL_ALIAS(const char*, ncclGetLastError, ncclComm_t);
VGPU_NCCL_ALIAS(void, ncclResetDebugInit, );
