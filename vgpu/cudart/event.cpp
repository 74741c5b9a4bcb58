// Events, and sharing events and memory between processes. The IPC handles are the driver's own: 64 opaque bytes in
// both interfaces.
#include <cstring>

#include "vgpu/cudart/runtime.hpp"

using namespace vgpu::cudart;

static_assert(sizeof(cudaIpcMemHandle_t) == sizeof(CUipcMemHandle));
static_assert(sizeof(cudaIpcEventHandle_t) == sizeof(CUipcEventHandle));

namespace {

template <class To, class From>
To as(const From& handle) {
    To to;
    std::memcpy(&to, &handle, sizeof to);
    return to;
}

}  // namespace

VGPU_CUDART_API cudaError_t cudaEventCreate(cudaEvent_t* event) {
    return api("cudaEventCreate", Needs::kContext, [&] { return cuEventCreate(event, CU_EVENT_DEFAULT); });
}

VGPU_CUDART_API cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
    return api("cudaEventCreateWithFlags", Needs::kContext, [&] { return cuEventCreate(event, flags); });
}

VGPU_CUDART_API cudaError_t cudaEventDestroy(cudaEvent_t event) {
    return api("cudaEventDestroy", Needs::kContext, [&] { return cuEventDestroy(event); });
}

VGPU_CUDART_API cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
    return api_on_stream("cudaEventRecord", stream, [&] { return cuEventRecord(event, stream); });
}

VGPU_CUDART_API cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags) {
    return api_on_stream("cudaEventRecordWithFlags", stream,
                         [&] { return cuEventRecordWithFlags(event, stream, flags); });
}

VGPU_CUDART_API cudaError_t cudaEventQuery(cudaEvent_t event) {
    return api("cudaEventQuery", Needs::kContext, [&] { return cuEventQuery(event); });
}

VGPU_CUDART_API cudaError_t cudaEventSynchronize(cudaEvent_t event) {
    return api("cudaEventSynchronize", Needs::kContext, [&] { return cuEventSynchronize(event); });
}

VGPU_CUDART_API cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
    return api("cudaEventElapsedTime", Needs::kContext, [&] { return cuEventElapsedTime(milliseconds, start, end); });
}

VGPU_CUDART_API cudaError_t cudaIpcGetEventHandle(cudaIpcEventHandle_t* handle, cudaEvent_t event) {
    return api("cudaIpcGetEventHandle", Needs::kContext, [&]() -> cudaError_t {
        if (handle == nullptr)
            return cudaErrorInvalidValue;
        CUipcEventHandle from_driver{};
        const CUresult result = cuIpcGetEventHandle(&from_driver, event);
        *handle = as<cudaIpcEventHandle_t>(from_driver);
        return runtime_error(result);
    });
}

VGPU_CUDART_API cudaError_t cudaIpcOpenEventHandle(cudaEvent_t* event, cudaIpcEventHandle_t handle) {
    return api("cudaIpcOpenEventHandle", Needs::kContext,
               [&] { return cuIpcOpenEventHandle(event, as<CUipcEventHandle>(handle)); });
}

VGPU_CUDART_API cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t* handle, void* pointer) {
    return api("cudaIpcGetMemHandle", Needs::kContext, [&]() -> cudaError_t {
        if (handle == nullptr)
            return cudaErrorInvalidValue;
        CUipcMemHandle from_driver{};
        const CUresult result = cuIpcGetMemHandle(&from_driver, device_address(pointer));
        *handle = as<cudaIpcMemHandle_t>(from_driver);
        return runtime_error(result);
    });
}

VGPU_CUDART_API cudaError_t cudaIpcOpenMemHandle(void** pointer, cudaIpcMemHandle_t handle, unsigned flags) {
    return api("cudaIpcOpenMemHandle", Needs::kContext, [&]() -> cudaError_t {
        if (pointer == nullptr)
            return cudaErrorInvalidValue;
        CUdeviceptr address = 0;
        const CUresult result = cuIpcOpenMemHandle(&address, as<CUipcMemHandle>(handle), flags);
        *pointer = host_view(address);
        return runtime_error(result);
    });
}

VGPU_CUDART_API cudaError_t cudaIpcCloseMemHandle(void* pointer) {
    return api("cudaIpcCloseMemHandle", Needs::kContext, [&] { return cuIpcCloseMemHandle(device_address(pointer)); });
}
