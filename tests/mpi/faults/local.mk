# Faults of the driver, of NCCL and of programs: every rank gets an error or the right data.
EXTRA_PROGRAMS += tests/mpi/faults/rounds tests/mpi/faults/classes tests/mpi/faults/freed tests/mpi/faults/at_the_limit
tests_mpi_faults_rounds_SOURCES = tests/mpi/faults/rounds.cpp tests/mpi/gpu.hpp tests/collective_forms.hpp
tests_mpi_faults_rounds_LDADD = $(RELINKED_LIBS)
tests_mpi_faults_rounds_LDFLAGS = $(RELINKED_LINK)
tests_mpi_faults_classes_SOURCES = tests/mpi/faults/classes.cpp tests/mpi/gpu.hpp tests/collective_forms.hpp
tests_mpi_faults_classes_LDADD = $(MPI_TEST_LIBS)
tests_mpi_faults_freed_SOURCES = tests/mpi/faults/freed.cpp tests/mpi/gpu.hpp
tests_mpi_faults_freed_LDADD = $(MPI_TEST_LIBS)
tests_mpi_faults_at_the_limit_SOURCES = tests/mpi/faults/at_the_limit.cpp tests/mpi/gpu.hpp tests/random_seed.hpp tests/collective_forms.hpp
tests_mpi_faults_at_the_limit_LDADD = $(RELINKED_LIBS)
tests_mpi_faults_at_the_limit_LDFLAGS = $(RELINKED_LINK)
TESTS += tests/mpi/faults/at_the_limit tests/mpi/faults/staged.test tests/mpi/faults/campaign.test tests/mpi/faults/odd_files.test tests/mpi/faults/on_failure.test tests/mpi/faults/stopped.test tests/mpi/faults/classes tests/mpi/faults/freed tests/mpi/faults/other_call.test
EXTRA_DIST += tests/mpi/faults/staged.test tests/mpi/faults/campaign.test tests/mpi/faults/odd_files.test tests/mpi/faults/on_failure.test tests/mpi/faults/stopped.test tests/mpi/faults/other_call.test
