/* CPU twins for kernel.cpp. */
#include <vgpu_kernels.h>

VGPU_KERNEL(scale)(const struct vgpu_launch* launch, void** args) {
    int n = *(int*)args[2];
    float factor = *(float*)args[1];
    float* x = launch->resolve(launch, *(void**)args[0], (size_t)n * sizeof *x);
    for (int i = 0; i < n; ++i)
        x[i] *= factor;
}
VGPU_KERNEL_PARAMETERS(scale, sizeof(float*), sizeof(float), sizeof(int));

/* Stores what it was launched with, and whether it may touch a second pointer. */
VGPU_KERNEL(describe)(const struct vgpu_launch* launch, void** args) {
    unsigned* out = launch->resolve(launch, *(void**)args[0], 9 * sizeof *out);
    for (int i = 0; i < 3; ++i) {
        out[i] = launch->grid[i];
        out[3 + i] = launch->block[i];
    }
    out[6] = launch->shared_bytes;
    out[7] = (unsigned)launch->device;
    out[8] = launch->resolve(launch, *(void**)args[1], 4) != 0;
}
VGPU_KERNEL_PARAMETERS(describe, sizeof(void*), sizeof(void*));

/* No sizes: a launch must wait for it. */
VGPU_KERNEL(increment)(const struct vgpu_launch* launch, void** args) {
    ++*(int*)launch->resolve(launch, *(void**)args[0], sizeof(int));
}
