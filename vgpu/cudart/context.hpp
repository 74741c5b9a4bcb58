// The device and context of a host thread. The driver's current context decides; where there is none, the
// thread's own choice (cudaSetDevice, else device 0) and that device's primary context, made on first use. For
// vgpu/cudart only.
#pragma once

#include <cuda.h>
#include <driver_types.h>

namespace vgpu::cudart {

// The oldest driver that this runtime takes, as cuDriverGetVersion gives it: the first of the runtime's major version.
int oldest_driver();

// Initialises the driver once; a failure is reported anew each time until it succeeds.
cudaError_t ensure_driver();

// Leaves this thread with a usable current context.
cudaError_t ensure_context();

// Whether the context that this thread used last was ended by cudaDeviceReset since.
bool was_reset();

// The device of this thread's current context, or the one that the next call would use. Needs the driver, makes no
// context.
cudaError_t current_device(int& device);

// The runtime's primary context of a device, retained on first use. It is not made current.
cudaError_t primary_context(int device, CUcontext& context);

// cudaErrorInvalidDevice unless 0 <= device < device count.
cudaError_t check_device(int device);

// Chooses the thread's device and makes its primary context current.
cudaError_t choose_device(int device);

// Ends the primary context of this thread's device, and what the runtime remembers of it.
cudaError_t reset_device();

}  // namespace vgpu::cudart
