// A libcuda.so.1 that does as it is told (fake_driver.h). Built without FAKE_PROC_ADDRESS it is a driver before 11.3,
// which has no cuGetProcAddress; with FAKE_INCOMPLETE it lacks cuMemcpyAsync and cuEventQuery.
#include "fake_driver.h"

#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace {

constexpr CUdeviceptr kAllocations = 0xd0000000;

FakeDriver state;
std::mutex mutex;
std::map<std::string, long>& counts() {
    static auto* all = new std::map<std::string, long>;
    return *all;
}

void count(const char* function) {
    const std::scoped_lock lock(mutex);
    ++counts()[function];
}

const FakeMemory* find(CUdeviceptr address) {
    for (const FakeMemory& memory : state.memory)
        if (address >= memory.begin && address < memory.begin + memory.size)
            return &memory;
    return nullptr;
}

void give(const FakeMemory& memory, CUpointer_attribute attribute, void* data) {
    switch (attribute) {
        case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
            *static_cast<CUmemorytype*>(data) = memory.type;
            break;
        case CU_POINTER_ATTRIBUTE_IS_MANAGED:
            *static_cast<unsigned*>(data) = memory.managed ? 1 : 0;
            break;
        case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
            *static_cast<int*>(data) = memory.ordinal;
            break;
        case CU_POINTER_ATTRIBUTE_CONTEXT:
            *static_cast<CUcontext*>(data) = memory.context;
            break;
        case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
            *static_cast<CUdeviceptr*>(data) = memory.begin;
            break;
        case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
            *static_cast<std::size_t*>(data) = memory.size;
            break;
        default:
            break;
    }
}

// What a call that a capture forbids says outside relaxed mode.
CUresult unsafe() {
    if (state.strict_capture && state.capture_mode != CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    return state.everything;
}

std::vector<CUcontext>& below() {
    static auto* stack = new std::vector<CUcontext>;
    return *stack;
}

template <typename Handle>
Handle fresh() {
    static std::uintptr_t next = 0x100000;
    const std::scoped_lock lock(mutex);
    return reinterpret_cast<Handle>(next += 16);
}

}  // namespace

#define COUNT count(__func__)
#define API __attribute__((visibility("default")))

extern "C" {

API FakeDriver* fake_driver() {
    state.calls = [](const char* function) {
        const std::scoped_lock lock(mutex);
        if (function != nullptr)
            return counts().count(function) != 0 ? counts()[function] : 0L;
        long all = 0;
        for (const auto& [name, number] : counts())
            all += number;
        return all;
    };
    state.forget_calls = [] {
        const std::scoped_lock lock(mutex);
        counts().clear();
    };
    return &state;
}

API CUresult cuInit(unsigned) {
    COUNT;
    state.initialised = state.init == CUDA_SUCCESS;
    return state.init;
}
API CUresult cuDriverGetVersion(int* version) {
    return *version = 12040, CUDA_SUCCESS;
}
API CUresult cuGetErrorName(CUresult, const char** text) {
    return *text = "CUDA_ERROR_FAKED", CUDA_SUCCESS;
}
API CUresult cuGetErrorString(CUresult, const char** text) {
    return *text = "as the test asked", CUDA_SUCCESS;
}

API CUresult cuDeviceGet(CUdevice* device, int ordinal) {
    return *device = ordinal, ordinal >= 0 && ordinal < 2 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}
API CUresult cuDeviceGetCount(int* number) {
    return *number = 2, CUDA_SUCCESS;
}
API CUresult cuDeviceGetName(char* name, int, CUdevice) {
    return std::strcpy(name, "Fake"), CUDA_SUCCESS;
}
API CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute, CUdevice) {
    return *value = 7, CUDA_SUCCESS;
}
// Both instances of a GPU in MIG mode have the GPU's UUID in the first form, their own in the second.
#undef cuDeviceGetUuid
API CUresult cuDeviceGetUuid(CUuuid* uuid, CUdevice) {
    return std::memset(uuid, 0xaa, 16), CUDA_SUCCESS;
}
API CUresult cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice device) {
    return std::memset(uuid, 0xb0 + device, 16), CUDA_SUCCESS;
}

API CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned* flags, int* active) {
    COUNT;
    return *flags = 0, *active = state.primary_active[device] ? 1 : 0, CUDA_SUCCESS;
}
API CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
    COUNT;
    return *context = fake_context(device), CUDA_SUCCESS;
}
API CUresult cuDevicePrimaryCtxRelease(CUdevice) {
    COUNT;
    return CUDA_SUCCESS;
}
API CUresult cuCtxGetCurrent(CUcontext* context) {
    return *context = state.current, CUDA_SUCCESS;
}
API CUresult cuCtxPushCurrent(CUcontext context) {
    COUNT;
    below().push_back(state.current);
    return state.current = context, CUDA_SUCCESS;
}
API CUresult cuCtxPopCurrent(CUcontext* context) {
    COUNT;
    *context = state.current;
    if (below().empty())
        return CUDA_ERROR_INVALID_CONTEXT;
    state.current = below().back();
    return below().pop_back(), CUDA_SUCCESS;
}
API CUresult cuCtxGetDevice(CUdevice* device) {
    if (state.current == nullptr)
        return CUDA_ERROR_INVALID_CONTEXT;
    return *device = static_cast<int>(reinterpret_cast<std::uintptr_t>(state.current) & 1), CUDA_SUCCESS;
}
API CUresult cuCtxSynchronize() {
    COUNT;
    return state.everything;
}
API CUresult cuCtxGetApiVersion(CUcontext, unsigned* version) {
    return *version = 3020, CUDA_SUCCESS;
}
API CUresult cuCtxGetId(CUcontext context, unsigned long long* id) {
    return *id = state.context_id[reinterpret_cast<std::uintptr_t>(context) & 1], CUDA_SUCCESS;
}

API CUresult cuPointerGetAttribute(void* data, CUpointer_attribute attribute, CUdeviceptr address) {
    COUNT;
    if (!state.initialised)
        return CUDA_ERROR_NOT_INITIALIZED;
    if (state.everything != CUDA_SUCCESS)
        return state.everything;
    if (attribute == CU_POINTER_ATTRIBUTE_BUFFER_ID) {
        // Of what cuMemAlloc gave: gone when the primary context is, another one after a reset.
        const int ordinal = static_cast<int>(address >> 20 & 1);
        *static_cast<unsigned long long*>(data) = state.context_id[ordinal];
        return address >= kAllocations && state.primary_active[ordinal] ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    }
    const FakeMemory* memory = find(address);
    if (memory == nullptr)
        return CUDA_ERROR_INVALID_VALUE;
    give(*memory, attribute, data);
    return CUDA_SUCCESS;
}
API CUresult cuPointerGetAttributes(unsigned number, CUpointer_attribute* names, void** values, CUdeviceptr address) {
    COUNT;
    if (!state.initialised)
        return CUDA_ERROR_NOT_INITIALIZED;
    if (state.everything != CUDA_SUCCESS)
        return state.everything;
    if (state.plural != CUDA_SUCCESS)
        return state.plural;
    const FakeMemory* memory = find(address);
    FakeMemory unknown{0, 0, CUmemorytype{}, false, -2, nullptr};
    for (unsigned i = 0; i < number; ++i)
        give(memory != nullptr ? *memory : unknown, names[i], values[i]);
    return CUDA_SUCCESS;
}

API CUresult cuStreamCreate(CUstream* stream, unsigned) {
    COUNT;
    return *stream = fresh<CUstream>(), unsafe();
}
API CUresult cuStreamDestroy(CUstream) {
    COUNT;
    return unsafe();
}
API CUresult cuStreamQuery(CUstream) {
    return unsafe() != CUDA_SUCCESS ? unsafe() : state.stream_state;
}
API CUresult cuStreamWaitEvent(CUstream, CUevent, unsigned) {
    COUNT;
    return unsafe();
}
API CUresult cuStreamIsCapturing(CUstream, CUstreamCaptureStatus* status) {
    return *status = CU_STREAM_CAPTURE_STATUS_NONE, state.legacy_capturing;
}
API CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
    COUNT;
    return std::swap(*mode, state.capture_mode), CUDA_SUCCESS;
}
API CUresult cuEventCreate(CUevent* event, unsigned) {
    COUNT;
    return *event = fresh<CUevent>(), unsafe();
}
API CUresult cuEventDestroy(CUevent) {
    COUNT;
    return unsafe();
}
API CUresult cuEventRecord(CUevent, CUstream) {
    COUNT;
    return unsafe();
}
#ifndef FAKE_INCOMPLETE
API CUresult cuEventQuery(CUevent) {
    COUNT;
    return unsafe() != CUDA_SUCCESS ? unsafe() : state.stream_state;
}
API CUresult cuMemcpyAsync(CUdeviceptr, CUdeviceptr, std::size_t bytes, CUstream) {
    COUNT;
    state.copied += bytes;
    return unsafe();
}
#endif
API CUresult cuMemcpy2DAsync(const CUDA_MEMCPY2D*, CUstream) {
    COUNT;
    return CUDA_ERROR_INVALID_VALUE;  // as for a pitch beyond the device's limit
}
API CUresult cuMemAlloc(CUdeviceptr* address, std::size_t) {
    COUNT;
    CUdevice device = 0;
    if (cuCtxGetDevice(&device) != CUDA_SUCCESS || !state.primary_active[device])
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    *address = kAllocations + (CUdeviceptr{1} << 20) * static_cast<unsigned>(device);
    return state.allocations != CUDA_SUCCESS ? state.allocations : unsafe();
}
API CUresult cuMemFree(CUdeviceptr) {
    COUNT;
    return unsafe();
}
API CUresult cuMemHostRegister(void*, std::size_t, unsigned) {
    COUNT;
    return unsafe() != CUDA_SUCCESS ? unsafe() : state.host_register;
}
API CUresult cuMemHostUnregister(void*) {
    COUNT;
    return unsafe() != CUDA_SUCCESS ? unsafe() : state.host_unregister;
}

#ifdef FAKE_PROC_ADDRESS
#undef cuGetProcAddress
API CUresult cuGetProcAddress_v2(const char* name, void** address, int, cuuint64_t, CUdriverProcAddressQueryResult*) {
    COUNT;
    *address = nullptr;
    if (std::strcmp(name, "cuDriverGetVersion") != 0)
        return CUDA_ERROR_NOT_FOUND;
    // Another function than the one of that name, so that a test sees which was taken.
    *address = reinterpret_cast<void*>(static_cast<CUresult (*)(int*)>([](int* version) {
        *version = 12080;
        return CUDA_SUCCESS;
    }));
    return CUDA_SUCCESS;
}
#endif

}  // extern "C"
