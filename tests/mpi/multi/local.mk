# The extension's calls on several buffers of a process.
TESTS += tests/mpi/multi/differential
EXTRA_PROGRAMS += tests/mpi/multi/differential
tests_mpi_multi_differential_SOURCES = tests/mpi/multi/differential.cpp tests/mpi/multi/place.hpp tests/mpi/gpu.hpp tests/random_seed.hpp
tests_mpi_multi_differential_LDADD = $(RELINKED_LIBS)
tests_mpi_multi_differential_LDFLAGS = $(RELINKED_LINK)

TESTS += tests/mpi/multi/counted.test
EXTRA_DIST += tests/mpi/multi/counted.test
EXTRA_PROGRAMS += tests/mpi/multi/counted
tests_mpi_multi_counted_SOURCES = tests/mpi/multi/counted.cpp tests/mpi/gpu.hpp
tests_mpi_multi_counted_LDADD = $(RELINKED_LIBS)
tests_mpi_multi_counted_LDFLAGS = $(RELINKED_LINK)

TESTS += tests/mpi/multi/messages
EXTRA_PROGRAMS += tests/mpi/multi/messages
tests_mpi_multi_messages_SOURCES = tests/mpi/multi/messages.cpp tests/mpi/multi/place.hpp tests/mpi/gpu.hpp tests/random_seed.hpp
tests_mpi_multi_messages_LDADD = $(RELINKED_LIBS)
tests_mpi_multi_messages_LDFLAGS = $(RELINKED_LINK)

TESTS += tests/mpi/multi/failing
EXTRA_PROGRAMS += tests/mpi/multi/failing
tests_mpi_multi_failing_SOURCES = tests/mpi/multi/failing.cpp tests/mpi/gpu.hpp
tests_mpi_multi_failing_LDADD = $(RELINKED_LIBS)
tests_mpi_multi_failing_LDFLAGS = $(RELINKED_LINK)

TESTS += tests/mpi/multi/lanes
EXTRA_PROGRAMS += tests/mpi/multi/lanes
tests_mpi_multi_lanes_SOURCES = tests/mpi/multi/lanes.cpp tests/mpi/gpu.hpp tests/random_seed.hpp
tests_mpi_multi_lanes_LDADD = $(RELINKED_LIBS)
tests_mpi_multi_lanes_LDFLAGS = $(RELINKED_LINK)

TESTS += tests/mpi/multi/begun
EXTRA_PROGRAMS += tests/mpi/multi/begun
tests_mpi_multi_begun_SOURCES = tests/mpi/multi/begun.cpp tests/mpi/gpu.hpp tests/random_seed.hpp
tests_mpi_multi_begun_LDADD = $(RELINKED_LIBS)
tests_mpi_multi_begun_LDFLAGS = $(RELINKED_LINK)
