# Benchmarks: built and run by hand or by `make bench`, they print ratios.

# What the library costs host calls: instructions (a test: they are exact) and time (ratios, by hand).
EXTRA_PROGRAMS += tests/bench/host_calls
tests_bench_host_calls_SOURCES = tests/bench/host_calls.cpp tests/mpi/gpu.hpp
tests_bench_host_calls_LDADD = $(MPI_TEST_LIBS)
TESTS += tests/bench/instructions.test
EXTRA_DIST += tests/bench/instructions.test tests/bench/host_path.py
.PHONY: bench
bench: all $(EXTRA_PROGRAMS)
	$(PYTHON3) $(srcdir)/tests/bench/host_path.py $(abs_builddir)
	for receives in 1 16 300; do tests/launch -n 2 --gpus 2 -- tests/bench/outstanding $$receives; done
	SWY_BUILDDIR=$(abs_builddir) $(PYTHON3) $(srcdir)/tests/bench/instructions.test
	SWY_BUILDDIR=$(abs_builddir) $(PYTHON3) $(srcdir)/tests/bench/locate.test
	SWY_BUILDDIR=$(abs_builddir) $(PYTHON3) $(srcdir)/tests/mpi/comm/ranks.test 4 8 16 32 64

# What it costs to ask where a host buffer lives.
EXTRA_PROGRAMS += tests/bench/locate
tests_bench_locate_SOURCES = tests/bench/locate.cpp
tests_bench_locate_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS)
tests_bench_locate_LDADD = libswy.la $(MPI_LIBS) $(HWLOC_LIBS) -ldl
TESTS += tests/bench/locate.test
EXTRA_DIST += tests/bench/locate.test

# What one message on device memory costs: messages, copies, NCCL operations, allocations.
EXTRA_PROGRAMS += tests/bench/messages
tests_bench_messages_SOURCES = tests/bench/messages.cpp tests/mpi/gpu.hpp
tests_bench_messages_LDADD = $(MPI_TEST_LIBS)
check_LTLIBRARIES += tests/bench/libmessage_counts.la
tests_bench_libmessage_counts_la_SOURCES = tests/bench/message_counts.c
tests_bench_libmessage_counts_la_LIBADD = $(MPI_LIBS) -ldl
tests_bench_libmessage_counts_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -rpath /nowhere
TESTS += tests/bench/messages.test
EXTRA_DIST += tests/bench/messages.test

# What operations under way cost calls that have nothing to do with them.
EXTRA_PROGRAMS += tests/bench/outstanding
tests_bench_outstanding_SOURCES = tests/bench/outstanding.cpp tests/mpi/gpu.hpp
tests_bench_outstanding_LDADD = $(MPI_TEST_LIBS)
