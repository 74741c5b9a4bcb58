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
    src/vgpu/private.h src/vgpu/core/built_in.cpp src/vgpu/core/built_in.hpp src/vgpu/core/allocations.cpp src/vgpu/core/allocations.hpp src/vgpu/core/context.cpp \
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
    src/vgpu/cuda/primary_context.cpp src/vgpu/cuda/proc_address.cpp src/vgpu/cuda/profiler.cpp src/vgpu/cuda/profiler.hpp \
    src/vgpu/cuda/release.hpp src/vgpu/cuda/stream_api.cpp src/vgpu/cuda/stream_memory.cpp \
    src/vgpu/cuda/transfer.cpp src/vgpu/cuda/transfer.hpp src/vgpu/cuda/vmm.cpp
vgpu_SCRIPTS += src/vgpu/lib/libcuda.so.1
EXTRA_DIST += src/vgpu/cuda/libcuda.map
CLEANFILES += src/vgpu/lib/libcuda.so.1
# nodelete: workers and exit handlers run this code to the end of the process, whoever closes the library.
src/vgpu/lib/libcuda.so.1: src/vgpu/libvgpu_cuda.la src/vgpu/cuda/libcuda.map
	$(vgpu_lib) -Wl,-z,nodelete -Wl,--version-script=$(top_srcdir)/src/vgpu/cuda/libcuda.map \
	    -Wl,--whole-archive src/vgpu/.libs/libvgpu_cuda.a -Wl,--no-whole-archive -ldl

# libcudart.so.12 and libcudart.so.13 (owner: cudart). Begin.
# One source for both; abi12.cpp and abi13.cpp hold what differs.
noinst_LTLIBRARIES += src/vgpu/libvgpu_cudart.la src/vgpu/libvgpu_cudart12.la src/vgpu/libvgpu_cudart13.la
src_vgpu_libvgpu_cudart_la_CPPFLAGS = $(VGPU_CPPFLAGS)
src_vgpu_libvgpu_cudart_la_SOURCES = \
    src/vgpu/cudart/allocation.cpp src/vgpu/cudart/allocation.hpp src/vgpu/cudart/context.cpp \
    src/vgpu/cudart/context.hpp src/vgpu/cudart/copy.cpp src/vgpu/cudart/copy.hpp src/vgpu/cudart/copy_shaped.cpp \
    src/vgpu/cudart/device.cpp src/vgpu/cudart/entry_point.cpp src/vgpu/cudart/entry_point.hpp \
    src/vgpu/cudart/errors.cpp src/vgpu/cudart/errors.def src/vgpu/cudart/event.cpp src/vgpu/cudart/function.cpp \
    src/vgpu/cudart/graph.cpp src/vgpu/cudart/kernel.cpp src/vgpu/cudart/per_thread.cpp src/vgpu/cudart/pool.cpp \
    src/vgpu/cudart/program.cpp src/vgpu/cudart/program.hpp src/vgpu/cudart/properties.hpp \
    src/vgpu/cudart/runtime.hpp src/vgpu/cudart/stream.cpp src/vgpu/cudart/stream.hpp src/vgpu/cudart/symbol.cpp
src_vgpu_libvgpu_cudart12_la_CPPFLAGS = $(VGPU_CPPFLAGS)
src_vgpu_libvgpu_cudart12_la_SOURCES = src/vgpu/cudart/abi12.cpp
src_vgpu_libvgpu_cudart13_la_CPPFLAGS = $(VGPU_CPPFLAGS)
src_vgpu_libvgpu_cudart13_la_SOURCES = src/vgpu/cudart/abi13.cpp
vgpu_SCRIPTS += src/vgpu/lib/libcudart.so.12 src/vgpu/lib/libcudart.so.13
noinst_DATA += src/vgpu/lib/libcudart.so
EXTRA_DIST += src/vgpu/cudart/cudart12.map src/vgpu/cudart/cudart13.map
CLEANFILES += src/vgpu/lib/libcudart.so.12 src/vgpu/lib/libcudart.so.13 src/vgpu/lib/libcudart.so
cudart_link = -Wl,-z,nodelete -Wl,--enable-new-dtags,-rpath,'$$ORIGIN'
src/vgpu/lib/libcudart.so.12: src/vgpu/libvgpu_cudart.la src/vgpu/libvgpu_cudart12.la src/vgpu/lib/libcuda.so.1 \
    src/vgpu/cudart/cudart12.map
	$(vgpu_lib) $(cudart_link) -Wl,--version-script=$(top_srcdir)/src/vgpu/cudart/cudart12.map \
	    -Wl,--whole-archive src/vgpu/.libs/libvgpu_cudart.a src/vgpu/.libs/libvgpu_cudart12.a \
	    -Wl,--no-whole-archive src/vgpu/lib/libcuda.so.1
src/vgpu/lib/libcudart.so.13: src/vgpu/libvgpu_cudart.la src/vgpu/libvgpu_cudart13.la src/vgpu/lib/libcuda.so.1 \
    src/vgpu/cudart/cudart13.map
	$(vgpu_lib) $(cudart_link) -Wl,--version-script=$(top_srcdir)/src/vgpu/cudart/cudart13.map \
	    -Wl,--whole-archive src/vgpu/.libs/libvgpu_cudart.a src/vgpu/.libs/libvgpu_cudart13.a \
	    -Wl,--no-whole-archive src/vgpu/lib/libcuda.so.1
# Intel MPI Benchmarks open this name. A link, not a copy: a copy would be loaded beside the library itself.
src/vgpu/lib/libcudart.so: src/vgpu/lib/libcudart.so.13
	$(AM_V_GEN)ln -sf libcudart.so.13 $@
install-exec-local:
	$(MKDIR_P) '$(DESTDIR)$(vgpudir)' && ln -sf libcudart.so.13 '$(DESTDIR)$(vgpudir)/libcudart.so'
uninstall-local:
	rm -f '$(DESTDIR)$(vgpudir)/libcudart.so'
# End.

# libnccl.so.2 (owner: nccl). Begin.
noinst_LTLIBRARIES += src/vgpu/libvgpu_nccl.la
src_vgpu_libvgpu_nccl_la_CPPFLAGS = $(VGPU_CPPFLAGS) $(NCCL_CPPFLAGS)
src_vgpu_libvgpu_nccl_la_SOURCES = \
    src/vgpu/nccl/algorithm.cpp src/vgpu/nccl/algorithm.hpp src/vgpu/nccl/api_collective.cpp \
    src/vgpu/nccl/api_communicator.cpp src/vgpu/nccl/api_memory.cpp src/vgpu/nccl/api_query.cpp \
    src/vgpu/nccl/bell.hpp src/vgpu/nccl/call.cpp src/vgpu/nccl/call.hpp src/vgpu/nccl/channel.hpp \
    src/vgpu/nccl/communicator.cpp src/vgpu/nccl/communicator.hpp src/vgpu/nccl/deadlock.cpp \
    src/vgpu/nccl/deadlock.hpp src/vgpu/nccl/debug.cpp src/vgpu/nccl/debug.hpp src/vgpu/nccl/device.cpp \
    src/vgpu/nccl/device.hpp src/vgpu/nccl/entry.cpp src/vgpu/nccl/entry.hpp src/vgpu/nccl/exchange.hpp \
    src/vgpu/nccl/executor.cpp src/vgpu/nccl/executor.hpp src/vgpu/nccl/family.cpp src/vgpu/nccl/family.hpp \
    src/vgpu/nccl/gate.hpp src/vgpu/nccl/group.cpp src/vgpu/nccl/group.hpp src/vgpu/nccl/identity.cpp \
    src/vgpu/nccl/identity.hpp src/vgpu/nccl/link.cpp src/vgpu/nccl/link.hpp src/vgpu/nccl/narrow_float.hpp \
    src/vgpu/nccl/operation.cpp src/vgpu/nccl/operation.hpp src/vgpu/nccl/reducer.cpp src/vgpu/nccl/reducer.hpp \
    src/vgpu/nccl/reduction.cpp src/vgpu/nccl/reduction.hpp src/vgpu/nccl/rendezvous.cpp \
    src/vgpu/nccl/rendezvous.hpp src/vgpu/nccl/settings.cpp src/vgpu/nccl/settings.hpp src/vgpu/nccl/setup.cpp \
    src/vgpu/nccl/setup.hpp src/vgpu/nccl/socket.cpp src/vgpu/nccl/socket.hpp src/vgpu/nccl/transport_shm.cpp \
    src/vgpu/nccl/transport_shm.hpp src/vgpu/nccl/transport_tcp.cpp src/vgpu/nccl/transport_tcp.hpp
vgpu_SCRIPTS += src/vgpu/lib/libnccl.so.2
EXTRA_DIST += src/vgpu/nccl/libnccl.map
CLEANFILES += src/vgpu/lib/libnccl.so.2
# nodelete: threads of the library and operations on streams run this code to the end of the process.
src/vgpu/lib/libnccl.so.2: src/vgpu/libvgpu_nccl.la src/vgpu/lib/libcuda.so.1 src/vgpu/nccl/libnccl.map
	$(vgpu_lib) -Wl,-z,nodelete -Wl,--enable-new-dtags,-rpath,'$$ORIGIN' \
	    -Wl,--version-script=$(top_srcdir)/src/vgpu/nccl/libnccl.map \
	    -Wl,--whole-archive src/vgpu/.libs/libvgpu_nccl.a -Wl,--no-whole-archive src/vgpu/lib/libcuda.so.1
# End.
