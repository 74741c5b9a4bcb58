# Tests of the virtual GPUs' CUDA runtime. They link it and its driver by name from vgpu/lib, and find them there.
cudart_tests = tests/vgpu/cudart/context tests/vgpu/cudart/kernel tests/vgpu/cudart/memory tests/vgpu/cudart/names \
    tests/vgpu/cudart/stream
if HAVE_GTEST
EXTRA_PROGRAMS += $(cudart_tests)
TESTS += $(cudart_tests)
CUDART_TEST_LIBS = vgpu/lib/libcudart.so.$(CUDA_MAJOR) vgpu/lib/libcuda.so.1 $(GTEST_LIBS) -ldl
CUDART_TEST_LINK = $(AM_LDFLAGS) -Wl,--enable-new-dtags,-rpath,$(abs_builddir)/vgpu/lib
tests_vgpu_cudart_context_SOURCES = tests/vgpu/cudart/context.cpp tests/vgpu/cudart/child.cpp tests/vgpu/cudart/child.hpp tests/vgpu/real.hpp
tests_vgpu_cudart_context_CPPFLAGS = $(VGPU_CPPFLAGS)
tests_vgpu_cudart_context_LDADD = $(CUDART_TEST_LIBS)
tests_vgpu_cudart_context_LDFLAGS = $(CUDART_TEST_LINK)
tests_vgpu_cudart_kernel_SOURCES = tests/vgpu/cudart/kernel.cpp tests/vgpu/cudart/child.cpp tests/vgpu/cudart/child.hpp tests/vgpu/real.hpp
tests_vgpu_cudart_kernel_CPPFLAGS = $(VGPU_CPPFLAGS) -DTWINS='"$(abs_builddir)/tests/vgpu/cudart/twins.so"'
tests_vgpu_cudart_kernel_LDADD = $(CUDART_TEST_LIBS)
tests_vgpu_cudart_kernel_LDFLAGS = $(CUDART_TEST_LINK)
tests_vgpu_cudart_memory_SOURCES = tests/vgpu/cudart/memory.cpp tests/vgpu/cudart/child.cpp tests/vgpu/cudart/child.hpp tests/vgpu/real.hpp
tests_vgpu_cudart_memory_CPPFLAGS = $(VGPU_CPPFLAGS)
tests_vgpu_cudart_memory_LDADD = $(CUDART_TEST_LIBS)
tests_vgpu_cudart_memory_LDFLAGS = $(CUDART_TEST_LINK)
tests_vgpu_cudart_names_SOURCES = tests/vgpu/cudart/names.cpp tests/vgpu/cudart/child.cpp tests/vgpu/cudart/child.hpp tests/vgpu/real.hpp
tests_vgpu_cudart_names_CPPFLAGS = $(VGPU_CPPFLAGS) -DLIBRARIES='"$(abs_builddir)/vgpu/lib"'
tests_vgpu_cudart_names_LDADD = $(CUDART_TEST_LIBS)
tests_vgpu_cudart_names_LDFLAGS = $(CUDART_TEST_LINK)
tests_vgpu_cudart_stream_SOURCES = tests/vgpu/cudart/stream.cpp tests/vgpu/cudart/child.cpp tests/vgpu/cudart/child.hpp tests/vgpu/real.hpp
tests_vgpu_cudart_stream_CPPFLAGS = $(VGPU_CPPFLAGS)
tests_vgpu_cudart_stream_LDADD = $(CUDART_TEST_LIBS)
tests_vgpu_cudart_stream_LDFLAGS = $(CUDART_TEST_LINK)
endif

# A twin library needs nothing of ours but the header, so it is built as a user builds one.
check_DATA += tests/vgpu/cudart/twins.so
CLEANFILES += tests/vgpu/cudart/twins.so
tests/vgpu/cudart/twins.so: tests/vgpu/cudart/twins.cpp vgpu/vgpu_kernels.h
	$(AM_V_CXXLD)$(MKDIR_P) tests/vgpu/cudart && $(CXX) $(AM_CXXFLAGS) $(CXXFLAGS) -fPIC -shared \
	    -I$(top_srcdir)/vgpu $(LDFLAGS) -o $@ $(top_srcdir)/tests/vgpu/cudart/twins.cpp

TESTS += tests/vgpu/cudart/clients.test tests/vgpu/cudart/cupy.test tests/vgpu/cudart/engine.test tests/vgpu/cudart/static.test
EXTRA_DIST += tests/vgpu/cudart/clients.test tests/vgpu/cudart/cupy.test tests/vgpu/cudart/cupy_client.py tests/vgpu/cudart/client.c tests/vgpu/cudart/client_symbols.txt \
    tests/vgpu/cudart/kernel_client.cu tests/vgpu/cudart/twins.cpp \
    tests/vgpu/cudart/engine.test tests/vgpu/cudart/engine_client.cu tests/vgpu/cudart/engine_main.cu \
    tests/vgpu/cudart/engine_function.cu tests/vgpu/cudart/heap_client.cu tests/vgpu/cudart/static.test tests/vgpu/cudart/static_client.cu tests/vgpu/cudart/static_mpi.cu
