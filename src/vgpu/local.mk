# Virtual GPUs: stand-ins for libcuda, libcudart and libnccl, built into src/vgpu/lib under the names that programs ask for (so tests
# run uninstalled with LD_LIBRARY_PATH) and installed into vgpudir. Each library's objects are collected in a convenience library and
# linked by hand: libtool knows no module whose file is called libcuda.so.1. vgpu_lib is the whole of that link but for its inputs.
vgpu_lib = $(AM_V_CXXLD)$(MKDIR_P) src/vgpu/lib && $(CXX) -shared $(CXXFLAGS) $(LDFLAGS) $(AM_LDFLAGS) \
    -Wl,-soname,$(@F) -Wl,-z,defs -o $@
VGPU_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS)
vgpu_SCRIPTS =
vgpukernelsdir = $(includedir)
vgpukernels_HEADERS = src/vgpu/vgpu_kernels.h

# libcuda.so.1: core and cuda. hwloc is loaded at run time, when VGPU_TOPOLOGY is set.
noinst_LTLIBRARIES += src/vgpu/libvgpu_cuda.la
src_vgpu_libvgpu_cuda_la_CPPFLAGS = $(VGPU_CPPFLAGS) $(HWLOC_CFLAGS)
src_vgpu_libvgpu_cuda_la_SOURCES = \
    src/vgpu/private.h src/vgpu/core/allocations.cpp src/vgpu/core/allocations.hpp src/vgpu/core/context.cpp \
    src/vgpu/core/context.hpp src/vgpu/core/device_memory.cpp src/vgpu/core/device_memory.hpp \
    src/vgpu/core/device_table.cpp src/vgpu/core/device_table.hpp src/vgpu/core/event.cpp src/vgpu/core/event.hpp \
    src/vgpu/core/fault.cpp src/vgpu/core/fault.hpp src/vgpu/core/jitter.cpp src/vgpu/core/kernels.cpp \
    src/vgpu/core/kernels.hpp src/vgpu/core/log.cpp src/vgpu/core/log.hpp src/vgpu/core/memory_ledger.cpp \
    src/vgpu/core/memory_ledger.hpp src/vgpu/core/process.cpp src/vgpu/core/process.hpp src/vgpu/core/settings.cpp \
    src/vgpu/core/settings.hpp src/vgpu/core/stream.cpp src/vgpu/core/stream.hpp src/vgpu/core/topology.cpp \
    src/vgpu/core/topology.hpp \
    src/vgpu/cuda/api.cpp src/vgpu/cuda/api.hpp src/vgpu/cuda/by_name.cpp src/vgpu/cuda/capture.cpp \
    src/vgpu/cuda/context_api.cpp src/vgpu/cuda/context_limits.cpp src/vgpu/cuda/copy.cpp src/vgpu/cuda/copy_box.cpp \
    src/vgpu/cuda/device.cpp src/vgpu/cuda/device_attributes.def src/vgpu/cuda/errors.cpp src/vgpu/cuda/errors.def \
    src/vgpu/cuda/event_api.cpp src/vgpu/cuda/function.cpp src/vgpu/cuda/functions.def src/vgpu/cuda/host_memory.cpp \
    src/vgpu/cuda/init.cpp src/vgpu/cuda/ipc.cpp src/vgpu/cuda/ipc.hpp src/vgpu/cuda/launch.cpp \
    src/vgpu/cuda/managed.cpp src/vgpu/cuda/memory.cpp src/vgpu/cuda/memset.cpp src/vgpu/cuda/module.cpp \
    src/vgpu/cuda/module.hpp src/vgpu/cuda/pointer.cpp src/vgpu/cuda/pool.cpp src/vgpu/cuda/pool.hpp \
    src/vgpu/cuda/primary_context.cpp src/vgpu/cuda/proc_address.cpp src/vgpu/cuda/release.hpp \
    src/vgpu/cuda/stream_api.cpp src/vgpu/cuda/stream_memory.cpp src/vgpu/cuda/transfer.cpp \
    src/vgpu/cuda/transfer.hpp
vgpu_SCRIPTS += src/vgpu/lib/libcuda.so.1
EXTRA_DIST += src/vgpu/cuda/libcuda.map
CLEANFILES += src/vgpu/lib/libcuda.so.1
# nodelete: workers and exit handlers run this code to the end of the process, whoever closes the library.
src/vgpu/lib/libcuda.so.1: src/vgpu/libvgpu_cuda.la src/vgpu/cuda/libcuda.map
	$(vgpu_lib) -Wl,-z,nodelete -Wl,--version-script=$(top_srcdir)/src/vgpu/cuda/libcuda.map \
	    -Wl,--whole-archive src/vgpu/.libs/libvgpu_cuda.a -Wl,--no-whole-archive -ldl

# libcudart.so.12 and libcudart.so.13 (owner: cudart). Begin.
# End.

# libnccl.so.2 (owner: nccl). Begin.
# End.
