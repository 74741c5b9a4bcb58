# Example programs: installed as sources to be read and copied, built and run here on virtual GPUs.
examplesdir = $(pkgdatadir)/examples
dist_examples_DATA = examples/README.md examples/decode.c examples/enqueue.c examples/halo.c examples/heat.f90 examples/iris.csv examples/kv_cache.h \
    examples/kernel_sum.cu examples/prefill.c examples/train_iris.c
dist_examples_SCRIPTS = examples/heat_numba.py examples/least_squares.py
EXTRA_DIST += examples/run-training examples/ci/action.yml examples/ci/virtual-gpus.yml examples/ci/virtual-gpus.gitlab-ci.yml

# Linked with the virtual GPUs' runtime, which has the real one's name and versions: where the loader finds that, it is used.
EXAMPLES_CUDA = vgpu/lib/libcudart.so.$(CUDA_MAJOR)
EXAMPLES_LINK = -Wl,-rpath-link,vgpu/lib

noinst_PROGRAMS += examples/train_iris
examples_train_iris_SOURCES = examples/train_iris.c
examples_train_iris_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS)
examples_train_iris_LDFLAGS = $(AM_LDFLAGS) $(EXAMPLES_LINK)
examples_train_iris_LDADD = $(EXAMPLES_CUDA) $(MPI_LIBS) -lm
examples_train_iris_DEPENDENCIES = $(EXAMPLES_CUDA)

noinst_PROGRAMS += examples/halo
examples_halo_SOURCES = examples/halo.c
examples_halo_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS)
examples_halo_LDFLAGS = $(AM_LDFLAGS) $(EXAMPLES_LINK)
examples_halo_LDADD = $(EXAMPLES_CUDA) $(MPI_LIBS)
examples_halo_DEPENDENCIES = $(EXAMPLES_CUDA)

noinst_PROGRAMS += examples/prefill examples/decode
examples_prefill_SOURCES = examples/prefill.c examples/kv_cache.h
examples_prefill_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS)
examples_prefill_LDFLAGS = $(AM_LDFLAGS) $(EXAMPLES_LINK)
examples_prefill_LDADD = $(EXAMPLES_CUDA) $(MPI_LIBS)
examples_prefill_DEPENDENCIES = $(EXAMPLES_CUDA)
examples_decode_SOURCES = examples/decode.c examples/kv_cache.h
examples_decode_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS)
examples_decode_LDFLAGS = $(AM_LDFLAGS) $(EXAMPLES_LINK)
examples_decode_LDADD = $(EXAMPLES_CUDA) $(MPI_LIBS)
examples_decode_DEPENDENCIES = $(EXAMPLES_CUDA)

# Calls extensions, so it is linked with the library too.
noinst_PROGRAMS += examples/enqueue
examples_enqueue_SOURCES = examples/enqueue.c
examples_enqueue_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS)
examples_enqueue_LDFLAGS = $(RELINKED_LINK) $(EXAMPLES_LINK)
examples_enqueue_LDADD = $(EXAMPLES_CUDA) $(RELINKED_LIBS)
examples_enqueue_DEPENDENCIES = $(EXAMPLES_CUDA) libswitchyard.la

if HAVE_FORTRAN
noinst_DATA += examples/heat
examples/heat: examples/heat.f90 $(EXAMPLES_CUDA)
	@$(MKDIR_P) examples/modules
	$(AM_V_GEN)$(MPIFORT) -O2 $(SWY_SANITIZE) -J examples/modules -o $@ $(srcdir)/examples/heat.f90 $(EXAMPLES_CUDA) $(EXAMPLES_LINK)
CLEANFILES += examples/heat examples/modules/*.mod
endif
