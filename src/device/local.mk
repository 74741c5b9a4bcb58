# The CUDA driver. The switchyard command uses it too.
device_sources = \
    src/device/call_scope.hpp src/device/context.cpp \
    src/device/device.hpp \
    src/device/driver.cpp \
    src/device/driver.hpp \
    src/device/entry_points.def \
    src/device/context_pool.cpp \
    src/device/context_pool.hpp \
    src/device/host_ranges.cpp \
    src/device/host_ranges.hpp \
    src/device/kernel_image.cpp \
    src/device/kernels.cpp \
    src/device/kernels.hpp \
    src/device/stream.cpp src/device/listing.cpp src/device/listing.hpp \
    src/device/libraries.cpp \
    src/device/libraries.hpp \
    src/device/location.cpp \
    src/device/mapped.cpp src/device/mapped.hpp \
    src/device/pinned.cpp \
    src/device/presence.cpp \
    src/device/presence.hpp \
    src/device/scratch.cpp \
    src/device/scratch.hpp

# The kernels: as cubins for the GPUs that this nvcc knows, and as PTX for the oldest of them. src/device/kernel_image.cpp
# says what each is for.
#
# nvcc writes its own version into the PTX, and a driver older than that refuses it. So the .version line is lowered to
# that of CUDA 11.0, the oldest driver that the library takes. The PTX ISA allows a module whatever the version in that
# line had; ptxas knows of each instruction since when it is there, and must make the very same machine code of both
# texts. Where it does not, does not take the lower one or is not there, the PTX stays as nvcc wrote it.
EXTRA_DIST += src/datatype/kernels.cu
if HAVE_NVCC
CLEANFILES += src/datatype/kernels.fatbin src/datatype/kernels.ptx
kernel_headers = src/datatype/pack_work.hpp src/datatype/reduce_work.hpp src/datatype/reduce_types.def \
    src/datatype/narrow_float.hpp
NVCC_KERNELS = $(NVCC) -std=c++17 -O3 -fmad=false -I$(top_srcdir)/src
src/datatype/kernels.fatbin: src/datatype/kernels.cu $(kernel_headers)
	@$(MKDIR_P) src/datatype
	$(AM_V_GEN)$(NVCC_KERNELS) $(NVCC_TARGETS) $(NVCC_UNCOMPRESSED) -fatbin -o $@.tmp $(top_srcdir)/src/datatype/kernels.cu && mv $@.tmp $@
src/datatype/kernels.ptx: src/datatype/kernels.cu $(kernel_headers)
	@$(MKDIR_P) src/datatype
	$(AM_V_GEN)$(NVCC_KERNELS) -arch=compute_$(NVCC_OLDEST) -ptx -o $@.tmp $(top_srcdir)/src/datatype/kernels.cu && \
	    sed 's/^\.version .*/.version 7.0/' $@.tmp >$@.low && \
	    { ptxas=`dirname '$(NVCC)'`/ptxas; test -x "$$ptxas" || ptxas=ptxas; \
	    if $$ptxas -arch=sm_$(NVCC_OLDEST) -o $@.cubin $@.tmp >$@.log 2>&1 && \
	        $$ptxas -arch=sm_$(NVCC_OLDEST) -o $@.low.cubin $@.low >>$@.log 2>&1 && cmp -s $@.cubin $@.low.cubin; then \
	        mv $@.low $@; \
	    else \
	        echo "The kernels' PTX needs a driver as new as nvcc:" && cat $@.log && mv $@.tmp $@; \
	    fi; }; status=$$?; rm -f $@.tmp $@.low $@.cubin $@.low.cubin $@.log; exit $$status
src/device/libswy_common_la-kernel_image.lo unity/libswy_common_la-device.lo: src/datatype/kernels.fatbin \
    src/datatype/kernels.ptx
endif
