# Every call on memory of every kind against the same call on host memory.
EXTRA_PROGRAMS += tests/mpi/staged/differential tests/mpi/staged/nonblocking
staged_rounds = tests/mpi/staged/buffers.cpp tests/mpi/staged/buffers.hpp tests/mpi/staged/communicators.cpp \
    tests/mpi/staged/messages.cpp tests/mpi/staged/movement.cpp tests/mpi/staged/neighbourhoods.cpp \
    tests/mpi/staged/reductions.cpp tests/mpi/staged/round.hpp tests/mpi/staged/views.cpp tests/mpi/staged/views.hpp \
    tests/mpi/gpu.hpp tests/collective_forms.hpp
tests_mpi_staged_differential_SOURCES = tests/mpi/staged/differential.cpp $(staged_rounds)
tests_mpi_staged_nonblocking_SOURCES = tests/mpi/staged/nonblocking.cpp $(staged_rounds)
tests_mpi_staged_nonblocking_LDADD = $(MPI_TEST_LIBS)
tests_mpi_staged_differential_LDADD = $(MPI_TEST_LIBS)
TESTS += tests/mpi/staged/differential tests/mpi/staged/nonblocking tests/mpi/staged/routes.test
EXTRA_DIST += tests/mpi/staged/routes.test

# Failures of the driver, and operands beyond the page-locked pool.
EXTRA_PROGRAMS += tests/mpi/staged/failures tests/mpi/staged/large
tests_mpi_staged_failures_SOURCES = tests/mpi/staged/failures.cpp tests/mpi/gpu.hpp
tests_mpi_staged_failures_LDADD = $(MPI_TEST_LIBS)
tests_mpi_staged_large_SOURCES = tests/mpi/staged/large.cpp tests/mpi/gpu.hpp
tests_mpi_staged_large_LDADD = $(MPI_TEST_LIBS)
TESTS += tests/mpi/staged/failures tests/mpi/staged/large

# Split collectives on files.
EXTRA_PROGRAMS += tests/mpi/staged/split
tests_mpi_staged_split_SOURCES = tests/mpi/staged/split.cpp tests/mpi/gpu.hpp
tests_mpi_staged_split_LDADD = $(MPI_TEST_LIBS)
TESTS += tests/mpi/staged/split
EXTRA_PROGRAMS += tests/mpi/staged/in_pieces
tests_mpi_staged_in_pieces_SOURCES = tests/mpi/staged/in_pieces.cpp tests/mpi/gpu.hpp
tests_mpi_staged_in_pieces_LDADD = $(MPI_TEST_LIBS)
TESTS += tests/mpi/staged/in_pieces tests/mpi/staged/file_copies.test
EXTRA_DIST += tests/mpi/staged/file_copies.test
