#include "vgpu/nccl/device.hpp"

#include <cctype>

#include "vgpu/nccl/debug.hpp"

namespace vgpu::nccl {
namespace {

// "0000:05:00.0" is 0x5000: NCCL reads the digits and skips what stands between.
std::uint64_t bus_number(const char* text) {
    std::uint64_t number = 0;
    for (; *text != '\0'; ++text)
        if (std::isxdigit(static_cast<unsigned char>(*text)) != 0)
            number =
                number * 16 + static_cast<std::uint64_t>(*text <= '9' ? *text - '0' : std::tolower(*text) - 'a' + 10);
    return number;
}

ncclResult_t describe(Device& device) {
    CUdevice handle = 0;
    char bus[64] = "";
    ncclResult_t result = checked(cuDeviceGet(&handle, device.ordinal), "cuDeviceGet");
    if (result == ncclSuccess)
        result = checked(cuDeviceGetPCIBusId(bus, sizeof bus, handle), "cuDeviceGetPCIBusId");
    device.bus_id = bus_number(bus);
    return result;
}

}  // namespace

ncclResult_t checked(CUresult result, const char* call) {
    if (result == CUDA_SUCCESS)
        return ncclSuccess;
    const char* text = nullptr;
    cuGetErrorString(result, &text);
    warn("Cuda failure %d '%s' in %s", static_cast<int>(result), text == nullptr ? "unknown error" : text, call);
    return ncclUnhandledCudaError;
}

ncclResult_t wait_for_device(const Device& device) {
    const Current current(device.context);
    return checked(cuMemFree(0), "cuMemFree");
}

ncclResult_t current_device(Device& device) {
    ncclResult_t result = checked(cuInit(0), "cuInit");
    if (result == ncclSuccess)
        result = checked(cuCtxGetCurrent(&device.context), "cuCtxGetCurrent");
    if (result != ncclSuccess)
        return result;
    if (device.context == nullptr) {
        result = device_at(0, device);
        return result == ncclSuccess ? checked(cuCtxSetCurrent(device.context), "cuCtxSetCurrent") : result;
    }
    CUdevice handle = 0;
    result = checked(cuCtxGetDevice(&handle), "cuCtxGetDevice");
    device.ordinal = handle;  // a CUdevice is its ordinal
    return result == ncclSuccess ? describe(device) : result;
}

ncclResult_t device_at(int ordinal, Device& device) {
    device.ordinal = ordinal;
    CUdevice handle = 0;
    ncclResult_t result = checked(cuInit(0), "cuInit");
    if (result == ncclSuccess)
        result = checked(cuDeviceGet(&handle, ordinal), "cuDeviceGet");
    // Kept for the life of the process, as the runtime keeps it.
    if (result == ncclSuccess)
        result = checked(cuDevicePrimaryCtxRetain(&device.context, handle), "cuDevicePrimaryCtxRetain");
    return result == ncclSuccess ? describe(device) : result;
}

int device_count() {
    int count = 0;
    if (cuInit(0) != CUDA_SUCCESS || cuDeviceGetCount(&count) != CUDA_SUCCESS)
        return 0;
    return count;
}

ncclResult_t check_pointer(const void* pointer, const Device& device, const char* call, const char* what) {
    CUmemorytype type{};
    int ordinal = -1;
    const auto address = reinterpret_cast<CUdeviceptr>(pointer);
    if (cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address) != CUDA_SUCCESS) {
        warn("%s : %s %p is not a valid pointer", call, what, pointer);
        return ncclInvalidArgument;
    }
    if (type == CU_MEMORYTYPE_DEVICE &&
        cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address) == CUDA_SUCCESS &&
        ordinal != device.ordinal) {
        warn("%s : %s allocated on device %d mismatchs with NCCL device %d", call, what, ordinal, device.ordinal);
        return ncclInvalidArgument;
    }
    return ncclSuccess;
}

}  // namespace vgpu::nccl
