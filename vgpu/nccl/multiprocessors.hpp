// The multiprocessors of this process's devices, as far as NCCL's kernels take them: each of a kernel's CTAs takes one
// to itself until the kernel ends. Kernels get theirs in the order in which they start; one that does not find enough
// waits, and those behind it wait with it.
#pragma once

#include <cstdint>

#include "vgpu/nccl/communicator.hpp"

namespace vgpu::nccl {

// How many channels NCCL has for the collectives of such a communicator: as many as the device's links want, or as the
// program's ncclConfig_t allows.
int channels_of(const Communicator& communicator);

// How many CTAs the kernel of a collective, or of sends and receives, has on this communicator: as many as NCCL has
// channels for them on such a device, or as the program's ncclConfig_t allows. Not called by a kernel, which may not
// ask the driver.
int ctas_of(const Communicator& communicator, bool collective);

// Held while a kernel of that many CTAs runs. Waits for its multiprocessors; gives up when the family is halted or has
// ended.
class Multiprocessors {
  public:
    Multiprocessors(const Communicator& communicator, int ctas);
    ~Multiprocessors();
    Multiprocessors(const Multiprocessors&) = delete;
    Multiprocessors& operator=(const Multiprocessors&) = delete;

  private:
    const int ordinal_;
    int taken_ = 0;
};

}  // namespace vgpu::nccl
