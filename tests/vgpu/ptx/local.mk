# Tests of the engine that runs PTX: one program, with the engine itself in it. Where there is nvcc, it makes PTX of the
# kernels that are compared with the host.
if HAVE_GTEST
EXTRA_PROGRAMS += tests/vgpu/ptx/engine
TESTS += tests/vgpu/ptx/engine
tests_vgpu_ptx_engine_SOURCES = tests/vgpu/ptx/arithmetic.cpp tests/vgpu/ptx/differential.cpp tests/vgpu/ptx/fixture.hpp \
    tests/vgpu/ptx/formulas.hpp tests/vgpu/ptx/parse.cpp tests/vgpu/ptx/run.cpp
tests_vgpu_ptx_engine_CPPFLAGS = $(AM_CPPFLAGS) -DKERNELS_PTX='"$(abs_builddir)/tests/vgpu/ptx/kernels.ptx"' \
    -DLIBRARY_PTX='"$(abs_builddir)/tests/vgpu/ptx/library.ptx"'
tests_vgpu_ptx_engine_CXXFLAGS = $(AM_CXXFLAGS) -ffp-contract=off
tests_vgpu_ptx_engine_LDADD = vgpu/libvgpu_ptx.la $(GTEST_LIBS) -lpthread
endif
EXTRA_DIST += tests/vgpu/ptx/kernels.cu
if HAVE_NVCC
check_DATA += tests/vgpu/ptx/kernels.ptx tests/vgpu/ptx/library.ptx
CLEANFILES += tests/vgpu/ptx/kernels.ptx tests/vgpu/ptx/library.ptx
ENGINE_NVCC = $(AM_V_GEN)$(MKDIR_P) tests/vgpu/ptx && $(NVCC) -std=c++17 -O3 -fmad=false -arch=compute_$(NVCC_OLDEST) -ptx
tests/vgpu/ptx/kernels.ptx: tests/vgpu/ptx/kernels.cu tests/vgpu/ptx/formulas.hpp
	$(ENGINE_NVCC) -I$(top_srcdir) -o $@ $(top_srcdir)/tests/vgpu/ptx/kernels.cu
tests/vgpu/ptx/library.ptx: src/datatype/kernels.cu src/datatype/reduce_work.hpp src/datatype/narrow_float.hpp
	$(ENGINE_NVCC) -I$(top_srcdir)/src -o $@ $(top_srcdir)/src/datatype/kernels.cu
endif
