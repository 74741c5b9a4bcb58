# Every blocking call on memory of every kind against the same call on host memory.
check_PROGRAMS += tests/mpi/staged/differential
tests_mpi_staged_differential_SOURCES = tests/mpi/staged/buffers.cpp tests/mpi/staged/buffers.hpp \
    tests/mpi/staged/differential.cpp tests/mpi/staged/messages.cpp tests/mpi/staged/movement.cpp \
    tests/mpi/staged/neighbourhoods.cpp tests/mpi/staged/reductions.cpp tests/mpi/staged/round.hpp \
    tests/mpi/staged/views.cpp tests/mpi/staged/views.hpp tests/mpi/gpu.hpp
tests_mpi_staged_differential_LDADD = $(MPI_TEST_LIBS)
TESTS += tests/mpi/staged/differential
