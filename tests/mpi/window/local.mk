# One-sided communication on memory of every kind against the same on host memory.
EXTRA_PROGRAMS += tests/mpi/window/differential
tests_mpi_window_differential_SOURCES = tests/mpi/window/differential.cpp tests/mpi/window/epoch.cpp \
    tests/mpi/window/epoch.hpp tests/mpi/staged/buffers.cpp tests/mpi/staged/buffers.hpp tests/mpi/staged/views.cpp \
    tests/mpi/staged/views.hpp tests/mpi/gpu.hpp tests/mpi/pml.hpp tests/random_seed.hpp
tests_mpi_window_differential_LDADD = $(MPI_TEST_LIBS)
EXTRA_PROGRAMS += tests/mpi/window/direct tests/mpi/window/dynamic tests/mpi/window/failing tests/mpi/window/rules \
    tests/mpi/window/threads
tests_mpi_window_direct_SOURCES = tests/mpi/window/direct.cpp tests/mpi/window/known_window.hpp tests/mpi/gpu.hpp \
    tests/mpi/pml.hpp
tests_mpi_window_direct_LDADD = $(MPI_TEST_LIBS)
tests_mpi_window_dynamic_SOURCES = tests/mpi/window/dynamic.cpp tests/mpi/gpu.hpp tests/mpi/pml.hpp
tests_mpi_window_dynamic_LDADD = $(MPI_TEST_LIBS)
tests_mpi_window_failing_SOURCES = tests/mpi/window/failing.cpp tests/mpi/gpu.hpp
tests_mpi_window_failing_LDADD = $(MPI_TEST_LIBS)
tests_mpi_window_rules_SOURCES = tests/mpi/window/rules.cpp tests/mpi/gpu.hpp
tests_mpi_window_rules_LDADD = $(MPI_TEST_LIBS)
tests_mpi_window_threads_SOURCES = tests/mpi/window/threads.cpp tests/mpi/window/known_window.hpp tests/mpi/gpu.hpp
tests_mpi_window_threads_LDADD = $(MPI_TEST_LIBS)
EXTRA_PROGRAMS += tests/mpi/window/counted
tests_mpi_window_counted_SOURCES = tests/mpi/window/counted.cpp tests/mpi/gpu.hpp
tests_mpi_window_counted_LDADD = $(MPI_TEST_LIBS)
TESTS += tests/mpi/window/counted.test tests/mpi/window/differential tests/mpi/window/direct \
    tests/mpi/window/dynamic tests/mpi/window/failing tests/mpi/window/rules tests/mpi/window/threads
EXTRA_DIST += tests/mpi/window/counted.test
