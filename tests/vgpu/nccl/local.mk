# Tests of the virtual GPUs' NCCL: one program, which starts itself again for each rank and finds the libraries in vgpu/lib.
if HAVE_GTEST
EXTRA_PROGRAMS += tests/vgpu/nccl/nccl
TESTS += tests/vgpu/nccl/nccl tests/vgpu/nccl/nvidia.test
tests_vgpu_nccl_nccl_SOURCES = tests/vgpu/real.hpp tests/vgpu/nccl/collectives.cpp tests/vgpu/nccl/communicators.cpp \
    tests/vgpu/nccl/elements.cpp tests/vgpu/nccl/elements.hpp tests/vgpu/nccl/failures.cpp tests/vgpu/nccl/graphs.cpp tests/vgpu/nccl/hardware.cpp tests/vgpu/nccl/mismatches.cpp \
    tests/vgpu/nccl/nccl.cpp tests/vgpu/nccl/ranks.cpp tests/vgpu/nccl/ranks.hpp tests/vgpu/nccl/transfers.cpp
tests_vgpu_nccl_nccl_CPPFLAGS = $(VGPU_CPPFLAGS) $(NCCL_CPPFLAGS)
tests_vgpu_nccl_nccl_LDADD = vgpu/lib/libnccl.so.2 vgpu/lib/libcuda.so.1 $(GTEST_LIBS) -ldl
tests_vgpu_nccl_nccl_LDFLAGS = $(AM_LDFLAGS) -Wl,--enable-new-dtags,-rpath,$(abs_builddir)/vgpu/lib
endif
EXTRA_DIST += tests/vgpu/nccl/nvidia.test tests/vgpu/nccl/nvidia_client.c
