# Persistent collectives on device memory.
EXTRA_PROGRAMS += tests/mpi/persistent/counted tests/mpi/persistent/lives tests/mpi/persistent/random
tests_mpi_persistent_counted_SOURCES = tests/mpi/persistent/counted.cpp tests/mpi/gpu.hpp
tests_mpi_persistent_counted_LDADD = $(MPI_TEST_LIBS)
tests_mpi_persistent_lives_SOURCES = tests/mpi/persistent/lives.cpp tests/mpi/gpu.hpp
tests_mpi_persistent_lives_LDADD = $(RELINKED_LIBS)
tests_mpi_persistent_lives_LDFLAGS = $(RELINKED_LINK)
tests_mpi_persistent_random_SOURCES = tests/mpi/persistent/random.cpp tests/mpi/gpu.hpp tests/random_seed.hpp
tests_mpi_persistent_random_LDADD = $(MPI_TEST_LIBS)
TESTS += tests/mpi/persistent/counted.test tests/mpi/persistent/lives tests/mpi/persistent/random
EXTRA_DIST += tests/mpi/persistent/counted.test
