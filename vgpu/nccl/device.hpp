// The device that a communicator is on, through the public driver API: its context, and work on its streams.
#pragma once

#include <cstdint>

#include <cuda.h>
#include <nccl.h>

namespace vgpu::nccl {

// Makes a context current on this thread for a scope.
class Current {
  public:
    explicit Current(CUcontext context) { pushed_ = context != nullptr && cuCtxPushCurrent(context) == CUDA_SUCCESS; }
    Current(const Current&) = delete;
    Current& operator=(const Current&) = delete;
    ~Current() {
        CUcontext old = nullptr;
        if (pushed_)
            cuCtxPopCurrent(&old);
    }

  private:
    bool pushed_ = false;
};

struct Device {
    int ordinal = -1;
    CUcontext context = nullptr;
    std::uint64_t bus_id = 0;
};

// Returns the device of the calling thread's current context; device 0's primary context where there is none, as in the
// CUDA runtime.
ncclResult_t current_device(Device& device);
// The device with this ordinal, by its primary context.
ncclResult_t device_at(int ordinal, Device& device);
int device_count();

// Makes the call that NCCL begins a communicator with, cudaFree(NULL), and that stands for its waiting for a stream of
// its own while it sets one up. A capture of the program's may forbid both to the calling thread.
ncclResult_t wait_for_device(const Device& device);

// Returns ncclUnhandledCudaError, after a warning with the driver's error text, or ncclSuccess.
ncclResult_t checked(CUresult result, const char* call);

// Checks that the pointer is memory that a kernel on the device may use; `what` names the argument in the warning.
ncclResult_t check_pointer(const void* pointer, const Device& device, const char* call, const char* what);

}  // namespace vgpu::nccl
