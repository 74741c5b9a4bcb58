// Memory, registration, and operators of the program's own.
#include <atomic>
#include <cstring>

#include "vgpu/nccl/debug.hpp"
#include "vgpu/nccl/entry.hpp"

using namespace vgpu::nccl;

namespace {

// Unlike in any other communicator, so that an operator used with the wrong one is noticed.
std::atomic<int> g_next_operator{ncclNumOps};
std::atomic<std::uintptr_t> g_next_registration{1};

}  // namespace

VGPU_NCCL_API ncclResult_t ncclMemAlloc(void** ptr, size_t size) {
    ncclResult_t result = enter_at_once("ncclMemAlloc", NCCL_VERSION(2, 19, 0));
    if (result == ncclSuccess)
        result = not_null(ptr, "ncclMemAlloc", "ptr");
    Device device;
    if (result == ncclSuccess)
        result = current_device(device);
    if (result != ncclSuccess)
        return result;
    CUdeviceptr address = 0;
    result = checked(cuMemAlloc(&address, size == 0 ? 1 : size), "cuMemAlloc");
    *ptr = result == ncclSuccess ? reinterpret_cast<void*>(address) : nullptr;
    return result;
}

VGPU_NCCL_API ncclResult_t ncclMemFree(void* ptr) {
    const ncclResult_t result = enter_at_once("ncclMemFree", NCCL_VERSION(2, 19, 0));
    if (result != ncclSuccess || ptr == nullptr)
        return result;
    return checked(cuMemFree(reinterpret_cast<CUdeviceptr>(ptr)), "cuMemFree");
}

// Registration is checked and recorded; a registered buffer is then treated as any other.
VGPU_NCCL_API ncclResult_t ncclCommRegister(const ncclComm_t comm, void* buff, size_t size, void** handle) {
    CommunicatorPtr communicator;
    ncclResult_t result = enter_at_once("ncclCommRegister", NCCL_VERSION(2, 19, 0));
    if (result == ncclSuccess)
        result = communicator_of(comm, "ncclCommRegister", communicator);
    if (result == ncclSuccess)
        result = not_null(buff, "ncclCommRegister", "buff");
    if (result == ncclSuccess)
        result = not_null(handle, "ncclCommRegister", "handle");
    if (result == ncclSuccess)
        result = communicator->ready();
    if (result == ncclSuccess)
        result = check_pointer(buff, communicator->device, "CommRegister", "buff");
    if (result != ncclSuccess)
        return result;
    *handle = reinterpret_cast<void*>(g_next_registration.fetch_add(1));
    const std::lock_guard guard(communicator->lock);
    communicator->registrations[*handle] = size;
    return ncclSuccess;
}

VGPU_NCCL_API ncclResult_t ncclCommDeregister(const ncclComm_t comm, void* handle) {
    CommunicatorPtr communicator;
    ncclResult_t result = enter_at_once("ncclCommDeregister", NCCL_VERSION(2, 19, 0));
    if (result == ncclSuccess)
        result = communicator_of(comm, "ncclCommDeregister", communicator);
    if (result != ncclSuccess)
        return result;
    const std::lock_guard guard(communicator->lock);
    if (communicator->registrations.erase(handle) != 0)
        return ncclSuccess;
    warn("CommDeregister : handle %p is not registered with this communicator", handle);
    return ncclInvalidUsage;
}

// As NCCL without symmetric memory (no peer access, NCCL_WIN_ENABLE=0): there is no window, and operations on the
// buffer take their usual way.
VGPU_NCCL_API ncclResult_t ncclCommWindowRegister(const ncclComm_t comm, void* /*buff*/, size_t /*size*/,
                                                  ncclWindow_t* win, int /*winFlags*/) {
    CommunicatorPtr communicator;
    ncclResult_t result = enter_at_once("ncclCommWindowRegister", NCCL_VERSION(2, 27, 0));
    if (result == ncclSuccess)
        result = communicator_of(comm, "ncclCommWindowRegister", communicator);
    if (result == ncclSuccess)
        result = not_null(win, "ncclCommWindowRegister", "win");
    if (result == ncclSuccess)
        *win = nullptr;
    return result;
}

VGPU_NCCL_API ncclResult_t ncclCommWindowDeregister(const ncclComm_t comm, ncclWindow_t win) {
    CommunicatorPtr communicator;
    ncclResult_t result = enter_at_once("ncclCommWindowDeregister", NCCL_VERSION(2, 27, 0));
    if (result == ncclSuccess)
        result = communicator_of(comm, "ncclCommWindowDeregister", communicator);
    if (result != ncclSuccess || win == nullptr)
        return result;
    warn("CommWindowDeregister : there is no window %p", static_cast<void*>(win));
    return ncclInvalidArgument;
}

VGPU_NCCL_API ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t* op, void* scalar, ncclDataType_t datatype,
                                                    ncclScalarResidence_t residence, ncclComm_t comm) {
    CommunicatorPtr communicator;
    ncclResult_t result = enter_at_once("ncclRedOpCreatePreMulSum");
    if (result == ncclSuccess)
        result = communicator_of(comm, "ncclRedOpCreatePreMulSum", communicator);
    if (result == ncclSuccess)
        result = communicator->ready();
    if (result == ncclSuccess)
        result = not_null(op, "ncclRedOpCreatePreMulSum", "op");
    if (result == ncclSuccess)
        result = not_null(scalar, "ncclRedOpCreatePreMulSum", "scalar");
    if (result != ncclSuccess)
        return result;
    const bool immediate = residence == ncclScalarHostImmediate;
    if (size_of(datatype) == 0 || (!immediate && residence != ncclScalarDevice)) {
        warn("RedOpCreatePreMulSum : invalid type %d or residence %d", static_cast<int>(datatype),
             static_cast<int>(residence));
        return ncclInvalidArgument;
    }
    Operator made;
    made.type = datatype;
    if (immediate)
        std::memcpy(made.scalar.bytes, scalar, size_of(datatype));
    else
        made.device_scalar = scalar;
    const int number = g_next_operator.fetch_add(1);
    const std::lock_guard guard(communicator->lock);
    communicator->operators[number] = made;
    *op = static_cast<ncclRedOp_t>(number);
    return ncclSuccess;
}

VGPU_NCCL_API ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm) {
    CommunicatorPtr communicator;
    ncclResult_t result = enter_at_once("ncclRedOpDestroy");
    if (result == ncclSuccess)
        result = communicator_of(comm, "ncclRedOpDestroy", communicator);
    if (result != ncclSuccess)
        return result;
    if (op >= 0 && op < ncclNumOps) {
        warn("RedOpDestroy : operator %d is NCCL builtin.", static_cast<int>(op));
        return ncclInvalidArgument;
    }
    const std::lock_guard guard(communicator->lock);
    if (communicator->operators.erase(static_cast<int>(op)) != 0)
        return ncclSuccess;
    warn("RedOpDestroy : operator %d unknown to this communicator", static_cast<int>(op));
    return ncclInvalidArgument;
}

VGPU_NCCL_ALIAS(ncclResult_t, ncclMemAlloc, void**, size_t);
VGPU_NCCL_ALIAS(ncclResult_t, ncclMemFree, void*);
VGPU_NCCL_ALIAS(ncclResult_t, ncclCommRegister, const ncclComm_t, void*, size_t, void**);
VGPU_NCCL_ALIAS(ncclResult_t, ncclCommDeregister, const ncclComm_t, void*);
VGPU_NCCL_ALIAS(ncclResult_t, ncclCommWindowRegister, const ncclComm_t, void*, size_t, ncclWindow_t*, int);
VGPU_NCCL_ALIAS(ncclResult_t, ncclCommWindowDeregister, const ncclComm_t, ncclWindow_t);
VGPU_NCCL_ALIAS(ncclResult_t, ncclRedOpCreatePreMulSum, ncclRedOp_t*, void*, ncclDataType_t, ncclScalarResidence_t,
                ncclComm_t);
VGPU_NCCL_ALIAS(ncclResult_t, ncclRedOpDestroy, ncclRedOp_t, ncclComm_t);
