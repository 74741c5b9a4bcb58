# Tests of the virtual GPUs' driver: one program, which finds libcuda.so.1 in vgpu/lib.
if HAVE_GTEST
EXTRA_PROGRAMS += tests/vgpu/cuda/driver
TESTS += tests/vgpu/cuda/driver tests/vgpu/cuda/leaks.test
tests_vgpu_cuda_driver_SOURCES = tests/vgpu/cuda/capture.cpp tests/vgpu/cuda/context.cpp tests/vgpu/cuda/copy.cpp tests/vgpu/cuda/device.cpp \
    tests/vgpu/cuda/fault.cpp tests/vgpu/cuda/fixture.hpp tests/vgpu/cuda/image.cpp tests/vgpu/cuda/ipc.cpp tests/vgpu/cuda/kernel.cpp tests/vgpu/cuda/link.cpp \
    tests/vgpu/cuda/memory.cpp tests/vgpu/cuda/names.cpp tests/vgpu/cuda/pointer.cpp tests/vgpu/cuda/process.cpp \
    tests/vgpu/cuda/process.hpp tests/vgpu/cuda/stream.cpp tests/vgpu/real.hpp
tests_vgpu_cuda_driver_CPPFLAGS = $(VGPU_CPPFLAGS) -DTWINS='"$(abs_builddir)/tests/vgpu/cuda/twins.so"'
tests_vgpu_cuda_driver_LDADD = vgpu/lib/libcuda.so.1 $(GTEST_LIBS) -ldl
tests_vgpu_cuda_driver_LDFLAGS = $(AM_LDFLAGS) -Wl,--enable-new-dtags,-rpath,$(abs_builddir)/vgpu/lib
endif
EXTRA_DIST += tests/vgpu/cuda/leaks.test tests/vgpu/cuda/twins.c

# A twin library needs nothing of ours but the header, so it is built as a user builds one.
check_DATA += tests/vgpu/cuda/twins.so
CLEANFILES += tests/vgpu/cuda/twins.so
tests/vgpu/cuda/twins.so: tests/vgpu/cuda/twins.c vgpu/vgpu_kernels.h
	$(AM_V_CCLD)$(MKDIR_P) tests/vgpu/cuda && $(CC) $(AM_CFLAGS) $(CFLAGS) -fPIC -shared -I$(top_srcdir)/vgpu \
	    $(LDFLAGS) -o $@ $(top_srcdir)/tests/vgpu/cuda/twins.c
