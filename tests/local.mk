# The test frame: how tests are started, timed and counted, and the checks of the build itself.
TEST_EXTENSIONS = .test
LOG_DRIVER = $(BASH) $(top_srcdir)/tests/driver
TEST_LOG_DRIVER = $(LOG_DRIVER)
LOG_COMPILER = $(EMULATOR)
check_DATA += tests/launch
AM_TESTS_ENVIRONMENT = SWY_SRCDIR='$(abs_top_srcdir)'; SWY_BUILDDIR='$(abs_top_builddir)'; \
    SWY_TIME_FACTOR='$(SWY_TIME_FACTOR)'; export SWY_SRCDIR SWY_BUILDDIR SWY_TIME_FACTOR;

dist_noinst_SCRIPTS += tests/driver tests/summary
EXTRA_DIST += tests/environment

# Tests are compiled in haste: they run for seconds. What most of them include is compiled once: g++ takes
# tests/common_headers.hpp.gch for that header where its flags are the test's, and reads the header itself where they are
# not; what it then warns of within the C++ library (its bug 105651) is switched off. Not with --disable-unity, where each
# source stands for itself.
EXTRA_DIST += tests/common_headers.hpp
test_cxxflags = $(CXXFLAGS:-O2=-O1)
if UNITY
common_headers = tests/common_headers.hpp.gch
CLEANFILES += $(common_headers) tests/common_headers.d
$(common_headers): tests/common_headers.hpp Makefile
	$(AM_V_CXX)$(MKDIR_P) tests && $(CXX) $(DEFS) $(DEFAULT_INCLUDES) $(UNIT_CPPFLAGS) $(CPPFLAGS) $(AM_CXXFLAGS) $(test_cxxflags) \
	    -MD -MP -MT $@ -MF tests/common_headers.d -x c++-header -o $@ $(srcdir)/tests/common_headers.hpp
-include tests/common_headers.d
tests/%.o: private CXXFLAGS := $(test_cxxflags) -include tests/common_headers.hpp \
    -Wno-unknown-warning-option -Wno-array-bounds -Wno-restrict -Wno-stringop-overflow -Wno-stringop-overread
objects_of = $(foreach program,$(1),$($(subst -,_,$(subst /,_,$(program)))_OBJECTS))
$(filter tests/%.o,$(call objects_of,$(EXTRA_PROGRAMS))): | $(common_headers)
else
tests/%.o: private CXXFLAGS := $(test_cxxflags)
endif

# What the areas' test programs are made with; docs/building.md shows each in use.
UNIT_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS) $(NCCL_CPPFLAGS) $(HWLOC_CFLAGS)
UNIT_LIBS = libswy.la $(GTEST_LIBS) $(HWLOC_LIBS) $(MPI_LIBS) -ldl
MPI_TEST_LIBS = $(MPI_LIBS) -ldl
RELINKED_LIBS = libswitchyard.la $(MPI_LIBS) -ldl
# -no-install: a program that can be started as it is, not by libtool's script.
RELINKED_LINK = $(AM_LDFLAGS) -no-install

build_tests = tests/build/exports.test tests/build/inert.test tests/build/install.test tests/build/configure.test \
    tests/build/dist.test tests/build/layers.test tests/build/packages.test tests/build/scripts.test \
    tests/build/find_package.test tests/build/wheel.test tests/build/site.test \
    tests/build/recipes.test
TESTS += $(build_tests)
EXTRA_DIST += $(build_tests)

# Several hosts on one machine: tests/multihost/README.md.
multihost_scripts = tests/multihost/link.sh tests/multihost/mpirun.sh tests/multihost/netns-down.sh \
    tests/multihost/netns-up.sh tests/multihost/node-exec.sh tests/multihost/rsh-agent.sh tests/multihost/with-cluster
dist_noinst_SCRIPTS += $(multihost_scripts)
EXTRA_DIST += tests/multihost/README.md tests/multihost/common.sh tests/multihost/netwire.c tests/multihost/probe.c \
    tests/multihost/reach.test tests/multihost/collectives.test tests/multihost/cut.test tests/multihost/messages.test
TESTS += tests/multihost/reach.test tests/multihost/collectives.test tests/multihost/cut.test tests/multihost/messages.test
EXTRA_PROGRAMS += tests/multihost/mixed
tests_multihost_mixed_SOURCES = tests/multihost/mixed.cpp tests/mpi/gpu.hpp
tests_multihost_mixed_LDADD = $(MPI_TEST_LIBS)

# Needs a git clone. make tidy takes a while; TIDY_FILES names less than everything.
dist_noinst_SCRIPTS += tests/format tests/readme tests/arm64
TIDY_FILES = $(filter %.cpp,$(foreach unit,$(units),$($(unit)_sources)))
.PHONY: format-check tidy
format-check:
	$(top_srcdir)/tests/format
tidy:
	clang-tidy --quiet $(addprefix $(top_srcdir)/,$(TIDY_FILES)) -- $(DEFS) $(DEFAULT_INCLUDES) $(libswy_la_CPPFLAGS) \
	    -I$(top_builddir)/src $(AM_CXXFLAGS)
