# Test of the virtual GPUs' NVML. The program needs nothing of ours, so it is built as a user builds one.
TESTS += tests/vgpu/nvml/nvml.test
EXTRA_DIST += tests/vgpu/nvml/nvml.test tests/vgpu/nvml/client.c
