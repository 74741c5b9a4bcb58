# The test frame: how tests are started, timed and counted, and the checks of the build itself.
TEST_EXTENSIONS = .test
LOG_DRIVER = $(BASH) $(top_srcdir)/tests/driver
TEST_LOG_DRIVER = $(LOG_DRIVER)
AM_TESTS_ENVIRONMENT = SWY_SRCDIR='$(abs_top_srcdir)'; SWY_BUILDDIR='$(abs_top_builddir)'; \
    export SWY_SRCDIR SWY_BUILDDIR;

dist_noinst_SCRIPTS += tests/driver tests/summary
EXTRA_DIST += tests/environment

# What the areas' test programs are made with; docs/building.md shows each in use.
UNIT_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS) $(NCCL_CPPFLAGS) $(HWLOC_CFLAGS)
UNIT_LIBS = libswy.la $(GTEST_LIBS) $(HWLOC_LIBS) $(MPI_LIBS) -ldl
MPI_TEST_LIBS = $(MPI_LIBS) -ldl
RELINKED_LIBS = libswitchyard.la $(MPI_LIBS) -ldl
# -no-install: a program that can be started as it is, not by libtool's script.
RELINKED_LINK = $(AM_LDFLAGS) -no-install

# One area at a time: make check-unit, check-mpi, check-vgpu, check-build ...
.PHONY: check-unit check-mpi check-vgpu check-build check-cli
check-unit check-mpi check-vgpu check-build check-cli:
	$(MAKE) $(AM_MAKEFLAGS) check TESTS='$(filter tests/$(@:check-%=%)/%,$(TESTS))'
