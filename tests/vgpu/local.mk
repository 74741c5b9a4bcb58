# Tests of the virtual GPUs.
include tests/vgpu/cudart/local.mk
