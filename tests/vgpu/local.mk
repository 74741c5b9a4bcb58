# Tests of the virtual GPUs.
include tests/vgpu/cuda/local.mk
include tests/vgpu/cudart/local.mk
include tests/vgpu/nccl/local.mk
include tests/vgpu/nvjitlink/local.mk
include tests/vgpu/nvml/local.mk
include tests/vgpu/ptx/local.mk
