# Virtual GPUs: stand-ins for libcuda, libcudart and libnccl, built into vgpu/lib under the names that programs ask for (so tests
# run uninstalled with LD_LIBRARY_PATH) and installed into vgpudir. Each library's objects are collected in a convenience library and
# linked by hand: libtool knows no module whose file is called libcuda.so.1. vgpu_lib is the whole of that link but for its inputs.
vgpu_lib = $(AM_V_CXXLD)$(MKDIR_P) vgpu/lib && $(CXX) -shared $(CXXFLAGS) $(LDFLAGS) $(AM_LDFLAGS) \
    -Wl,-soname,$(@F) -Wl,-z,defs -o $@
VGPU_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS)
vgpu_SCRIPTS =
vgpukernelsdir = $(includedir)
vgpukernels_HEADERS = vgpu/vgpu_kernels.h

# libcuda.so.1: core and cuda. hwloc is loaded at run time, when VGPU_TOPOLOGY is set.
noinst_LTLIBRARIES += vgpu/libvgpu_cuda.la
vgpu_libvgpu_cuda_la_CPPFLAGS = $(VGPU_CPPFLAGS) $(HWLOC_CFLAGS)
vgpu_core_sources = \
    vgpu/newer_cuda.h vgpu/private.h vgpu/core/built_in.cpp vgpu/core/built_in.hpp \
    vgpu/core/allocations.cpp vgpu/core/allocations.hpp vgpu/core/capture.cpp vgpu/core/capture.hpp vgpu/core/context.cpp vgpu/core/context.hpp \
    vgpu/core/device_memory.cpp vgpu/core/device_memory.hpp vgpu/core/device_table.cpp vgpu/core/device_table.hpp \
    vgpu/core/event.cpp vgpu/core/event.hpp vgpu/core/fault.cpp vgpu/core/fault.hpp vgpu/core/graph.cpp vgpu/core/graph.hpp \
    vgpu/core/jitter.cpp \
    vgpu/core/kernels.cpp vgpu/core/kernels.hpp vgpu/core/log.cpp vgpu/core/log.hpp vgpu/core/machines.def \
    vgpu/core/memory_ledger.cpp vgpu/core/memory_ledger.hpp vgpu/core/process.cpp vgpu/core/process.hpp \
    vgpu/core/settings.cpp vgpu/core/settings.hpp vgpu/core/stream.cpp vgpu/core/stream.hpp vgpu/core/topology.cpp \
    vgpu/core/topology.hpp
vgpu_cuda_sources = \
    vgpu/cuda/api.cpp vgpu/cuda/api.hpp vgpu/cuda/by_name.cpp vgpu/cuda/capture.cpp vgpu/cuda/capture.hpp \
    vgpu/cuda/context_api.cpp vgpu/cuda/context_limits.cpp vgpu/cuda/copy.cpp vgpu/cuda/copy_batch.cpp vgpu/cuda/copy_box.cpp \
    vgpu/cuda/device.cpp vgpu/cuda/device_attributes.def vgpu/cuda/device_heap.cpp vgpu/cuda/device_heap.hpp vgpu/cuda/elf.cpp vgpu/cuda/elf.hpp vgpu/cuda/errors.cpp vgpu/cuda/errors.def \
    vgpu/cuda/event_api.cpp vgpu/cuda/export_table.cpp vgpu/cuda/function.cpp vgpu/cuda/functions.def \
    vgpu/cuda/graph.cpp \
    vgpu/cuda/host_memory.cpp vgpu/cuda/init.cpp vgpu/cuda/ipc.cpp vgpu/cuda/ipc.hpp vgpu/cuda/launch.cpp \
    vgpu/cuda/jit_log.cpp vgpu/cuda/jit_log.hpp vgpu/cuda/link_api.cpp vgpu/cuda/linker.cpp vgpu/cuda/linker.hpp \
    vgpu/cuda/compression.cpp vgpu/cuda/compression.hpp vgpu/cuda/device_code.cpp vgpu/cuda/device_code.hpp \
    vgpu/cuda/image.cpp vgpu/cuda/image.hpp vgpu/cuda/init.hpp vgpu/cuda/managed.cpp vgpu/cuda/memory.cpp vgpu/cuda/memset.cpp \
    vgpu/cuda/module.cpp vgpu/cuda/module.hpp vgpu/cuda/node.cpp vgpu/cuda/pointer.cpp vgpu/cuda/pool.cpp vgpu/cuda/pool.hpp \
    vgpu/cuda/primary_context.cpp vgpu/cuda/proc_address.cpp vgpu/cuda/profiler.cpp vgpu/cuda/profiler.hpp \
    vgpu/cuda/release.hpp vgpu/cuda/stream_api.cpp vgpu/cuda/stream_memory.cpp vgpu/cuda/transfer.cpp \
    vgpu/cuda/transfer.hpp vgpu/cuda/vmm.cpp vgpu/cuda/vmm.hpp
if UNITY
nodist_vgpu_libvgpu_cuda_la_SOURCES = unity/vgpu_core.cpp unity/vgpu_cuda.cpp
else
vgpu_libvgpu_cuda_la_SOURCES = $(vgpu_core_sources) $(vgpu_cuda_sources)
endif
vgpu_SCRIPTS += vgpu/lib/libcuda.so.1
EXTRA_DIST += vgpu/README.md vgpu/cuda/libcuda.map
CLEANFILES += vgpu/lib/libcuda.so.1
# nodelete: workers and exit handlers run this code to the end of the process, whoever closes the library.
vgpu/lib/libcuda.so.1: vgpu/libvgpu_cuda.la vgpu/libvgpu_ptx.la vgpu/cuda/libcuda.map
	$(vgpu_lib) -Wl,-z,nodelete -Wl,--version-script=$(top_srcdir)/vgpu/cuda/libcuda.map \
	    -Wl,--whole-archive vgpu/.libs/libvgpu_cuda.a vgpu/.libs/libvgpu_ptx.a -Wl,--no-whole-archive -ldl

# The engine that runs PTX, a part of libcuda.so.1 (owner: ptx). Begin.
# Rounding modes are set at run time, and a product and a sum are one operation only where PTX says so.
noinst_LTLIBRARIES += vgpu/libvgpu_ptx.la
vgpu_libvgpu_ptx_la_CPPFLAGS = $(VGPU_CPPFLAGS)
vgpu_libvgpu_ptx_la_CXXFLAGS = $(AM_CXXFLAGS) -O2 -frounding-math -ffp-contract=off
# The files of instructions, each of which has an Add or a Min of its own, are compiled one by one.
vgpu_ptx_sources = \
    vgpu/ptx/code.hpp vgpu/ptx/decode.cpp vgpu/ptx/decode.hpp vgpu/ptx/function.cpp \
    vgpu/ptx/lanes.hpp vgpu/ptx/lexer.cpp vgpu/ptx/lexer.hpp vgpu/ptx/link.cpp vgpu/ptx/machine.hpp \
    vgpu/ptx/memory.cpp vgpu/ptx/narrow.cpp vgpu/ptx/narrow.hpp vgpu/ptx/parse_declaration.cpp \
    vgpu/ptx/parse_instruction.cpp vgpu/ptx/parser.cpp vgpu/ptx/parser.hpp vgpu/ptx/print.cpp vgpu/ptx/ptx.hpp \
    vgpu/ptx/run.cpp vgpu/ptx/syntax.hpp vgpu/ptx/warp.cpp
vgpu_libvgpu_ptx_la_SOURCES = \
    vgpu/ptx/access.cpp vgpu/ptx/asynchronous.cpp vgpu/ptx/atomic.cpp \
    vgpu/ptx/bits.cpp vgpu/ptx/carry.cpp vgpu/ptx/compare.cpp vgpu/ptx/convert.cpp vgpu/ptx/flow.cpp vgpu/ptx/half.cpp \
    vgpu/ptx/integer.cpp vgpu/ptx/move.cpp vgpu/ptx/real.cpp vgpu/ptx/special.cpp vgpu/ptx/sync.cpp
if UNITY
nodist_vgpu_libvgpu_ptx_la_SOURCES = unity/vgpu_ptx.cpp
else
vgpu_libvgpu_ptx_la_SOURCES += $(vgpu_ptx_sources)
endif
# End.

# libcudart.so.12 and libcudart.so.13 (owner: cudart). Begin.
# One source for both; abi12.cpp and abi13.cpp hold what differs.
noinst_LTLIBRARIES += vgpu/libvgpu_cudart.la vgpu/libvgpu_cudart12.la vgpu/libvgpu_cudart13.la
vgpu_libvgpu_cudart_la_CPPFLAGS = $(VGPU_CPPFLAGS)
vgpu_cudart_sources = \
    vgpu/cudart/allocation.cpp vgpu/cudart/allocation.hpp vgpu/cudart/context.cpp \
    vgpu/cudart/context.hpp vgpu/cudart/copy.cpp vgpu/cudart/copy.hpp vgpu/cudart/copy_shaped.cpp \
    vgpu/cudart/device.cpp vgpu/cudart/entry_point.cpp vgpu/cudart/entry_point.hpp \
    vgpu/cudart/errors.cpp vgpu/cudart/errors.def vgpu/cudart/event.cpp vgpu/cudart/function.cpp \
    vgpu/cudart/graph.cpp vgpu/cudart/kernel.cpp vgpu/cudart/per_thread.cpp vgpu/cudart/pool.cpp \
    vgpu/cudart/program.cpp vgpu/cudart/program.hpp vgpu/cudart/properties.hpp \
    vgpu/cudart/runtime.hpp vgpu/cudart/stream.cpp vgpu/cudart/stream.hpp vgpu/cudart/symbol.cpp
if UNITY
nodist_vgpu_libvgpu_cudart_la_SOURCES = unity/vgpu_cudart.cpp
else
vgpu_libvgpu_cudart_la_SOURCES = $(vgpu_cudart_sources)
endif
vgpu_libvgpu_cudart12_la_CPPFLAGS = $(VGPU_CPPFLAGS)
vgpu_libvgpu_cudart12_la_SOURCES = vgpu/cudart/abi12.cpp
vgpu_libvgpu_cudart13_la_CPPFLAGS = $(VGPU_CPPFLAGS)
vgpu_libvgpu_cudart13_la_SOURCES = vgpu/cudart/abi13.cpp
vgpu_SCRIPTS += vgpu/lib/libcudart.so.12 vgpu/lib/libcudart.so.13
noinst_DATA += vgpu/lib/libcudart.so
EXTRA_DIST += vgpu/cudart/cudart12.map vgpu/cudart/cudart13.map
CLEANFILES += vgpu/lib/libcudart.so.12 vgpu/lib/libcudart.so.13 vgpu/lib/libcudart.so
cudart_link = -Wl,-z,nodelete -Wl,--enable-new-dtags,-rpath,'$$ORIGIN'
vgpu/lib/libcudart.so.12: vgpu/libvgpu_cudart.la vgpu/libvgpu_cudart12.la vgpu/lib/libcuda.so.1 \
    vgpu/cudart/cudart12.map
	$(vgpu_lib) $(cudart_link) -Wl,--version-script=$(top_srcdir)/vgpu/cudart/cudart12.map \
	    -Wl,--whole-archive vgpu/.libs/libvgpu_cudart.a vgpu/.libs/libvgpu_cudart12.a \
	    -Wl,--no-whole-archive vgpu/lib/libcuda.so.1
vgpu/lib/libcudart.so.13: vgpu/libvgpu_cudart.la vgpu/libvgpu_cudart13.la vgpu/lib/libcuda.so.1 \
    vgpu/cudart/cudart13.map
	$(vgpu_lib) $(cudart_link) -Wl,--version-script=$(top_srcdir)/vgpu/cudart/cudart13.map \
	    -Wl,--whole-archive vgpu/.libs/libvgpu_cudart.a vgpu/.libs/libvgpu_cudart13.a \
	    -Wl,--no-whole-archive vgpu/lib/libcuda.so.1
# The name that programs are linked with, and that Intel MPI Benchmarks open: the version of the headers at hand. A link, not a
# copy: a copy would be loaded beside the library itself.
vgpu/lib/libcudart.so: vgpu/lib/libcudart.so.$(CUDA_MAJOR)
	$(AM_V_GEN)ln -sf libcudart.so.$(CUDA_MAJOR) $@
install-exec-local:
	$(MKDIR_P) '$(DESTDIR)$(vgpudir)' && ln -sf libcudart.so.$(CUDA_MAJOR) '$(DESTDIR)$(vgpudir)/libcudart.so'
uninstall-local:
	rm -f '$(DESTDIR)$(vgpudir)/libcudart.so'
# End.

# libnvJitLink.so.12 and .13: the driver's linker of device code under nvJitLink's interface, one source for both. They load the
# driver when a program links.
noinst_LTLIBRARIES += vgpu/libvgpu_nvjitlink.la
vgpu_libvgpu_nvjitlink_la_CPPFLAGS = $(VGPU_CPPFLAGS)
vgpu_libvgpu_nvjitlink_la_SOURCES = vgpu/nvjitlink/nvjitlink.cpp
vgpu_SCRIPTS += vgpu/lib/libnvJitLink.so.12 vgpu/lib/libnvJitLink.so.13
EXTRA_DIST += vgpu/nvjitlink/libnvJitLink.map
CLEANFILES += vgpu/lib/libnvJitLink.so.12 vgpu/lib/libnvJitLink.so.13
vgpu/lib/libnvJitLink.so.12 vgpu/lib/libnvJitLink.so.13: vgpu/libvgpu_nvjitlink.la vgpu/nvjitlink/libnvJitLink.map
	$(vgpu_lib) -Wl,--enable-new-dtags,-rpath,'$$ORIGIN' \
	    -Wl,--version-script=$(top_srcdir)/vgpu/nvjitlink/libnvJitLink.map \
	    -Wl,--whole-archive vgpu/.libs/libvgpu_nvjitlink.a -Wl,--no-whole-archive -ldl

# libvgpu_static.so, which is preloaded: it has programs with NVIDIA's static runtime call libcudart.so.12 or .13 beside it, and
# brings the virtual nvJitLink before cuda.bindings would load NVIDIA's by its path. It needs none of the others itself, so that
# programs without CUDA load nothing of them.
noinst_LTLIBRARIES += vgpu/libvgpu_replace.la
vgpu_libvgpu_replace_la_CPPFLAGS = $(VGPU_CPPFLAGS)
vgpu_static_sources = \
    vgpu/static/program.cpp vgpu/static/program.hpp vgpu/static/redirect.cpp vgpu/static/redirect.hpp vgpu/static/replace.cpp
if UNITY
nodist_vgpu_libvgpu_replace_la_SOURCES = unity/vgpu_static.cpp
else
vgpu_libvgpu_replace_la_SOURCES = $(vgpu_static_sources)
endif
vgpu_SCRIPTS += vgpu/lib/libvgpu_static.so
CLEANFILES += vgpu/lib/libvgpu_static.so
vgpu/lib/libvgpu_static.so: vgpu/libvgpu_replace.la vgpu/lib/libcudart.so.12 vgpu/lib/libcudart.so.13 \
    vgpu/lib/libnvJitLink.so.12 vgpu/lib/libnvJitLink.so.13
	$(vgpu_lib) -Wl,-z,initfirst -Wl,--exclude-libs,ALL -Wl,--whole-archive vgpu/.libs/libvgpu_replace.a -Wl,--no-whole-archive -ldl \
	    -Wl,--enable-new-dtags,-rpath,'$$ORIGIN' -Wl,--no-as-needed vgpu/lib/libnvJitLink.so.12 vgpu/lib/libnvJitLink.so.13

# libnvidia-ml.so.1: NVML over the node's devices.
noinst_LTLIBRARIES += vgpu/libvgpu_nvml.la
vgpu_libvgpu_nvml_la_CPPFLAGS = $(AM_CPPFLAGS)
vgpu_nvml_sources = \
    vgpu/nvml/device.cpp vgpu/nvml/links.cpp vgpu/nvml/node.cpp vgpu/nvml/node.hpp vgpu/nvml/nvml.h vgpu/nvml/system.cpp
if UNITY
nodist_vgpu_libvgpu_nvml_la_SOURCES = unity/vgpu_nvml.cpp
else
vgpu_libvgpu_nvml_la_SOURCES = $(vgpu_nvml_sources)
endif
vgpu_SCRIPTS += vgpu/lib/libnvidia-ml.so.1
EXTRA_DIST += vgpu/nvml/libnvidia-ml.map
CLEANFILES += vgpu/lib/libnvidia-ml.so.1
vgpu/lib/libnvidia-ml.so.1: vgpu/libvgpu_nvml.la vgpu/lib/libcuda.so.1 vgpu/nvml/libnvidia-ml.map
	$(vgpu_lib) -Wl,--enable-new-dtags,-rpath,'$$ORIGIN' \
	    -Wl,--version-script=$(top_srcdir)/vgpu/nvml/libnvidia-ml.map \
	    -Wl,--whole-archive vgpu/.libs/libvgpu_nvml.a -Wl,--no-whole-archive vgpu/lib/libcuda.so.1

# libnccl.so.2 (owner: nccl). Begin.
noinst_LTLIBRARIES += vgpu/libvgpu_nccl.la
vgpu_libvgpu_nccl_la_CPPFLAGS = $(VGPU_CPPFLAGS) $(NCCL_CPPFLAGS)
vgpu_nccl_sources = \
    vgpu/nccl/algorithm.cpp vgpu/nccl/algorithm.hpp vgpu/nccl/api_collective.cpp \
    vgpu/nccl/api_communicator.cpp vgpu/nccl/api_memory.cpp vgpu/nccl/api_query.cpp \
    vgpu/nccl/bell.hpp vgpu/nccl/call.cpp vgpu/nccl/call.hpp vgpu/nccl/channel.hpp \
    vgpu/nccl/communicator.cpp vgpu/nccl/communicator.hpp vgpu/nccl/deadlock.cpp \
    vgpu/nccl/deadlock.hpp vgpu/nccl/debug.cpp vgpu/nccl/debug.hpp vgpu/nccl/device.cpp \
    vgpu/nccl/device.hpp vgpu/nccl/entry.cpp vgpu/nccl/entry.hpp vgpu/nccl/exchange.hpp \
    vgpu/nccl/executor.cpp vgpu/nccl/executor.hpp vgpu/nccl/family.cpp vgpu/nccl/family.hpp \
    vgpu/nccl/group.cpp vgpu/nccl/group.hpp vgpu/nccl/identity.cpp \
    vgpu/nccl/identity.hpp vgpu/nccl/link.cpp vgpu/nccl/link.hpp vgpu/nccl/multiprocessors.cpp vgpu/nccl/multiprocessors.hpp vgpu/nccl/narrow_float.hpp \
    vgpu/nccl/operation.cpp vgpu/nccl/operation.hpp vgpu/nccl/reducer.cpp vgpu/nccl/reducer.hpp \
    vgpu/nccl/reduction.cpp vgpu/nccl/reduction.hpp vgpu/nccl/rendezvous.cpp \
    vgpu/nccl/rendezvous.hpp vgpu/nccl/quiet_thread.hpp vgpu/nccl/settings.cpp vgpu/nccl/settings.hpp vgpu/nccl/setup.cpp \
    vgpu/nccl/setup.hpp vgpu/nccl/socket.cpp vgpu/nccl/socket.hpp vgpu/nccl/ticket_lock.hpp \
    vgpu/nccl/transport_shm.cpp vgpu/nccl/transport_shm.hpp vgpu/nccl/transport_tcp.cpp vgpu/nccl/transport_tcp.hpp
if UNITY
nodist_vgpu_libvgpu_nccl_la_SOURCES = unity/vgpu_nccl.cpp
else
vgpu_libvgpu_nccl_la_SOURCES = $(vgpu_nccl_sources)
endif
vgpu_SCRIPTS += vgpu/lib/libnccl.so.2
EXTRA_DIST += vgpu/nccl/libnccl.map
CLEANFILES += vgpu/lib/libnccl.so.2
# nodelete: threads of the library and operations on streams run this code to the end of the process.
vgpu/lib/libnccl.so.2: vgpu/libvgpu_nccl.la vgpu/lib/libcuda.so.1 vgpu/nccl/libnccl.map
	$(vgpu_lib) -Wl,-z,nodelete -Wl,--enable-new-dtags,-rpath,'$$ORIGIN' \
	    -Wl,--version-script=$(top_srcdir)/vgpu/nccl/libnccl.map \
	    -Wl,--whole-archive vgpu/.libs/libvgpu_nccl.a -Wl,--no-whole-archive vgpu/lib/libcuda.so.1
# End.
