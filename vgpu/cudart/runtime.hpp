// The begin and end of every entry point of the virtual GPUs' CUDA runtime: injected faults, lazy initialisation, this
// thread's last error. For vgpu/cudart only. The runtime has no device state of its own but the current device; all
// other state is the driver's.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include "vgpu/cudart/context.hpp"
#include "vgpu/newer_cuda.h"

// Where the two CUDA versions differ in a function's form, ours has another C++ name and takes its symbol by this
// label, so that it stands beside the header's declaration.
#define VGPU_CUDART_SYMBOL(name) __asm__(#name) __attribute__((visibility("default")))

// Marks a function that the library exports; everything else is hidden.
#define VGPU_CUDART_API extern "C" __attribute__((visibility("default")))

namespace vgpu::cudart {

// The runtime's number for a driver's code; cudaErrorUnknown for a code that the runtime does not have.
cudaError_t runtime_error(CUresult result);
inline cudaError_t runtime_error(cudaError_t result) {
    return result;
}

// Makes an error this thread's last one (cudaGetLastError) and hands it on. cudaErrorNotReady is an answer, not an
// error: the CUDA C++ Programming Guide says that it is not reported by cudaPeekAtLastError and cudaGetLastError.
cudaError_t remember(cudaError_t error);

// Returns the fault of VGPU_FAULTS for this call. `hang` is set where the operation must be accepted and never
// complete.
cudaError_t injected_fault(const char* function, bool& hang);
// Never returns: a synchronous function under an injected hang.
[[noreturn]] void hang_forever(void* unused = nullptr);

enum class Needs { kNothing, kDriver, kContext };

inline cudaError_t prepare(Needs needs) {
    switch (needs) {
        case Needs::kContext:
            return ensure_context();
        case Needs::kDriver:
            return ensure_driver();
        case Needs::kNothing:
            break;
    }
    return cudaSuccess;
}

// One runtime call. `function` is the name that VGPU_FAULTS knows it by; `body` returns a CUresult or a cudaError_t.
template <class Body>
cudaError_t api(const char* function, Needs needs, Body&& body) {
    bool hang = false;
    if (const cudaError_t injected = injected_fault(function, hang); injected != cudaSuccess)
        return remember(injected);
    if (hang)
        hang_forever();
    if (const cudaError_t ready = prepare(needs); ready != cudaSuccess)
        return remember(ready);
    return remember(runtime_error(body()));
}

// A call that orders work on a stream: an injected hang is accepted at once and stalls that stream for good, as a lost
// kernel would.
template <class Body>
cudaError_t api_on_stream(const char* function, cudaStream_t stream, Body&& body) {
    bool hang = false;
    if (const cudaError_t injected = injected_fault(function, hang); injected != cudaSuccess)
        return remember(injected);
    if (const cudaError_t ready = prepare(Needs::kContext); ready != cudaSuccess)
        return remember(ready);
    if (hang)
        return remember(runtime_error(cuLaunchHostFunc(
            stream, [](void* nothing) { hang_forever(nothing); }, nullptr)));
    return remember(runtime_error(body()));
}

// The stream that 0 names in code built with --default-stream per-thread.
inline cudaStream_t per_thread(cudaStream_t stream) {
    return stream == nullptr ? cudaStreamPerThread : stream;
}

inline CUdeviceptr device_address(const void* pointer) {
    return reinterpret_cast<CUdeviceptr>(pointer);
}
inline void* host_view(CUdeviceptr address) {
    return reinterpret_cast<void*>(address);
}

}  // namespace vgpu::cudart
