# Virtual GPUs: libcuda, libcudart and libnccl, built into src/vgpu/lib and installed into vgpudir.
