# Types and operators.
check_PROGRAMS += tests/mpi/types/extension
tests_mpi_types_extension_SOURCES = tests/mpi/types/extension.cpp tests/mpi/types/small_floats.hpp tests/mpi/gpu.hpp
tests_mpi_types_extension_LDADD = $(RELINKED_LIBS)
tests_mpi_types_extension_LDFLAGS = $(RELINKED_LINK)
TESTS += tests/mpi/types/extension
TESTS += tests/mpi/types/extension_python.test
EXTRA_DIST += tests/mpi/types/extension_python.test
check_PROGRAMS += tests/mpi/types/table
tests_mpi_types_table_SOURCES = tests/mpi/types/table.cpp tests/mpi/types/predefined.hpp tests/mpi/gpu.hpp
tests_mpi_types_table_LDADD = $(MPI_TEST_LIBS)
TESTS += tests/mpi/types/table
check_PROGRAMS += tests/mpi/types/columns
tests_mpi_types_columns_SOURCES = tests/mpi/types/columns.cpp tests/mpi/gpu.hpp
tests_mpi_types_columns_LDADD = $(MPI_TEST_LIBS)
TESTS += tests/mpi/types/packing.test
EXTRA_DIST += tests/mpi/types/packing.test
check_PROGRAMS += tests/mpi/types/reduce_local
tests_mpi_types_reduce_local_SOURCES = tests/mpi/types/reduce_local.cpp tests/mpi/types/predefined.hpp tests/mpi/gpu.hpp \
    tests/random_seed.hpp
tests_mpi_types_reduce_local_LDADD = $(RELINKED_LIBS)
tests_mpi_types_reduce_local_LDFLAGS = $(RELINKED_LINK)
TESTS += tests/mpi/types/reduce_local tests/mpi/types/reduce_local.test
EXTRA_DIST += tests/mpi/types/reduce_local.test
