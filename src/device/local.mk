# The CUDA driver. Listed in a variable of their own, since the switchyard command compiles these files too
# (src/cli/local.mk).
swy_device_sources = \
    src/device/context.cpp \
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
    src/device/pinned.cpp \
    src/device/presence.cpp \
    src/device/presence.hpp \
    src/device/scratch.cpp \
    src/device/scratch.hpp
libswy_la_SOURCES += $(swy_device_sources)

# The kernels, for the GPUs that this nvcc knows; as text for the oldest, which later ones can take too.
EXTRA_DIST += src/datatype/kernels.cu
if HAVE_NVCC
CLEANFILES += src/datatype/kernels.fatbin
src/datatype/kernels.fatbin: src/datatype/kernels.cu src/datatype/pack_work.hpp \
    src/datatype/reduce_work.hpp src/datatype/reduce_types.def src/datatype/narrow_float.hpp
	@$(MKDIR_P) src/datatype
	$(AM_V_GEN)$(NVCC) $(NVCC_TARGETS) -std=c++17 -O3 -fmad=false -Xfatbin -compress-all -I$(top_srcdir)/src -fatbin -o $@.tmp $< && mv $@.tmp $@
src/device/libswy_la-kernel_image.lo src/device/switchyard-kernel_image.$(OBJEXT): src/datatype/kernels.fatbin
endif
