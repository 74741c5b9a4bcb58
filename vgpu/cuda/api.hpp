// The first statements of every entry point of libcuda, and the conversion of handles to objects. Included by
// vgpu/cuda/*.cpp only.
#pragma once

// All versions and default-stream variants are declared, under their exported names.
#define __CUDA_API_VERSION_INTERNAL
#pragma GCC visibility push(default)
#include <cuda.h>
#pragma GCC visibility pop

#include <memory>

#include "vgpu/core/allocations.hpp"
#include "vgpu/core/context.hpp"
#include "vgpu/core/event.hpp"
#include "vgpu/core/fault.hpp"
#include "vgpu/core/log.hpp"
#include "vgpu/core/process.hpp"
#include "vgpu/newer_cuda.h"

namespace vgpu::cuda {

enum class Needs { Nothing, Init, Context };
// Effect of "hang" in VGPU_FAULTS: the call blocks, or the operation is accepted and never completes.
enum class Hang { Blocks, Enqueues };

// The checks before a call's own: an injected fault, the driver's state, a current context.
class Entry {
  public:
    Entry(FaultPoint& point, Needs needs, Hang hang = Hang::Blocks);

    CUresult result() const { return result_; }
    Context& context() const { return *context_; }
    bool hang() const { return hang_; }
    const char* name() const { return point_.function.c_str(); }

  private:
    FaultPoint& point_;
    CUresult result_ = CUDA_SUCCESS;
    Context* context_ = nullptr;
    bool hang_ = false;
};

// What a kernel's failure has made of the context: calls that wait return it, and so do all after them.
inline CUresult failure_of(const Context& context) {
    return static_cast<CUresult>(context.error());
}

// First statement of every entry point; `entry` is in scope after it. Faults are counted by the name without suffixes.
#define VGPU_ENTER(function, ...)                                            \
    static ::vgpu::FaultPoint& entry_point = ::vgpu::fault_point(#function); \
    const ::vgpu::cuda::Entry entry(entry_point, __VA_ARGS__);               \
    if (entry.result() != CUDA_SUCCESS)                                      \
    return entry.result()

inline std::uintptr_t at(CUdeviceptr pointer) {
    return static_cast<std::uintptr_t>(pointer);
}
inline std::uintptr_t at(const void* pointer) {
    return reinterpret_cast<std::uintptr_t>(pointer);
}
inline CUcontext handle(Context* context) {
    return reinterpret_cast<CUcontext>(context);
}
inline CUstream handle(Stream* stream) {
    return reinterpret_cast<CUstream>(stream);
}
inline CUevent handle(Event* event) {
    return reinterpret_cast<CUevent>(event);
}

Registry<Stream>& stream_handles();
Registry<Event>& event_handles();

// Returns the context of a handle: nullptr if there is none or it was destroyed.
Context* context_of(CUcontext handle);

// Returns the stream that an argument names for the calling thread; 0 is the legacy default stream. nullptr: no such
// stream.
std::shared_ptr<Stream> stream_of(const Entry& entry, CUstream stream);
// The same for the _ptsz and _ptds variants, where 0 is the calling thread's own default stream.
inline CUstream per_thread(CUstream stream) {
    return stream == nullptr ? CU_STREAM_PER_THREAD : stream;
}

inline Device* device_of(CUdevice device) {
    return devices().valid(device) ? &devices()[device] : nullptr;
}

const char* error_name(CUresult error);  // nullptr when there is no such code
bool error_by_name(std::string_view name, CUresult& error);
bool known_function(std::string_view base);  // in the table of entry points

// Logs the phases of an operation on a stream; the start and the end are logged where it runs.
class Logged {
  public:
    Logged(const char* operation, const Stream* stream, Fields fields);
    void launch() const;
    // `run`, with its start and end logged.
    std::function<void()> wrap(std::function<void()> run) const;

  private:
    const char* operation_;
    std::string fields_;
};

// Logs a call that waits for the device.
void log_wait(const char* operation, const Stream* stream);

}  // namespace vgpu::cuda
