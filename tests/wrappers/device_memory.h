/* Device memory for test programs in C, C++ and Fortran, by way of the CUDA runtime, which is loaded when first asked
   for: the same program runs on host memory where there is none. A CUDA error, or no runtime, ends the process. */
#ifndef DEVICE_MEMORY_H
#define DEVICE_MEMORY_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* On the device that goes with this process's rank on its node. */
void* device_alloc(size_t bytes);
void device_free(void* memory);
/* Either side may be device or host memory. */
void device_copy(void* to, const void* from, size_t bytes);

#ifdef __cplusplus
}
#endif
#endif
