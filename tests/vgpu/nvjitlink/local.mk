# Tests of the virtual nvJitLink.
TESTS += tests/vgpu/nvjitlink/nvjitlink.test
EXTRA_DIST += tests/vgpu/nvjitlink/nvjitlink.test tests/vgpu/nvjitlink/client.cpp
