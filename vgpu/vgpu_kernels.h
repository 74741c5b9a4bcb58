/* CPU twins: how a kernel runs on virtual GPUs.
 *
 * A kernel called NAME (as in the device code: mangled for C++) has a twin when one of the shared libraries that
 * VGPU_KERNELS names (a colon-separated list) exports the function vgpu_kernel_NAME. A launch calls it once for the
 * whole grid, on the stream's own thread. A kernel without a twin runs from its program's PTX; a launch of one
 * that has none either gives CUDA_ERROR_NO_BINARY_FOR_GPU (runtime: cudaErrorInvalidDeviceFunction where there is no
 * device code at all).
 *
 *     #include <vgpu_kernels.h>
 *     VGPU_KERNEL(scale)(const struct vgpu_launch *launch, void **args)      // scale(float *x, float factor, int n)
 *     {
 *         int n = *(int *)args[2];
 *         float *x = launch->resolve(launch, *(void **)args[0], n * sizeof *x), factor = *(float *)args[1];
 *         for (int i = 0; i < n; ++i)
 *             x[i] *= factor;
 *     }
 *     VGPU_KERNEL_PARAMETERS(scale, sizeof(float *), sizeof(float), sizeof(int));
 *
 * The sizes let the launch copy its arguments and return at once, as on a GPU. Without them the launch waits for the
 * twin.
 *
 * A variable NAME of the device code (__device__, __constant__, __managed__) starts as zeros: initial values are not
 * read from the code. A library may export a function that sets it up and keeps its address for the twins that use it,
 *     VGPU_KERNEL_LINKAGE void vgpu_variable_NAME(int device, void *address, size_t bytes);
 * called once per device (a managed variable: once), before the first launch or copy that can reach the variable.
 */
#ifndef VGPU_KERNELS_H
#define VGPU_KERNELS_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct vgpu_launch {
    unsigned grid[3];
    unsigned block[3];
    unsigned shared_bytes; /* dynamic shared memory */
    int device;            /* ordinal */
    /* Where the twin finds what a device pointer addresses: `bytes` from there on may be used. NULL when the range is
     * not wholly inside one allocation that a kernel of this launch's context may touch (memory of a peer needs peer
     * access). */
    void* (*resolve)(const struct vgpu_launch* launch, const void* device_pointer, size_t bytes);
    const void* context; /* the simulator's */
};

typedef void (*vgpu_kernel)(const struct vgpu_launch* launch, void** args);

#ifdef __cplusplus
}
#define VGPU_KERNEL_LINKAGE extern "C" __attribute__((visibility("default")))
#else
#define VGPU_KERNEL_LINKAGE __attribute__((visibility("default")))
#endif

/* Begins the definition of the twin of `name`. */
#define VGPU_KERNEL(name) VGPU_KERNEL_LINKAGE void vgpu_kernel_##name

/* The sizes of the parameters of `name`, in order. A zero ends the list. */
#ifdef __cplusplus
#define VGPU_KERNEL_PARAMETERS(name, ...)                             \
    VGPU_KERNEL_LINKAGE const size_t vgpu_kernel_parameters_##name[]; \
    const size_t vgpu_kernel_parameters_##name[] = {__VA_ARGS__, 0}
#else
#define VGPU_KERNEL_PARAMETERS(name, ...) \
    VGPU_KERNEL_LINKAGE const size_t vgpu_kernel_parameters_##name[] = {__VA_ARGS__, 0}
#endif

#endif
