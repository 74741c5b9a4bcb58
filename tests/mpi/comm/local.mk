# Communicators: every way in which MPI makes one, what they cost, and how they end.
comm_tests = tests/mpi/comm/apart.test tests/mpi/comm/children.test tests/mpi/comm/counted.test tests/mpi/comm/ends.test tests/mpi/comm/failing.test tests/mpi/comm/groups.test tests/mpi/comm/made.test \
    tests/mpi/comm/ranks.test tests/mpi/comm/scalable.test
TESTS += $(comm_tests) tests/mpi/comm/churn tests/mpi/comm/dynamic tests/mpi/comm/freed_between \
    tests/mpi/comm/idle tests/mpi/comm/idup tests/mpi/comm/random
EXTRA_DIST += $(comm_tests) tests/mpi/comm/report.py
EXTRA_PROGRAMS += tests/mpi/comm/children tests/mpi/comm/churn tests/mpi/comm/counted tests/mpi/comm/deserter tests/mpi/comm/dynamic tests/mpi/comm/ends tests/mpi/comm/failing tests/mpi/comm/freed_between tests/mpi/comm/groups tests/mpi/comm/idle tests/mpi/comm/idup tests/mpi/comm/made \
    tests/mpi/comm/random tests/mpi/comm/ranks tests/mpi/comm/spawned_jobs
tests_mpi_comm_churn_SOURCES = tests/mpi/comm/churn.cpp tests/mpi/comm/cost.hpp tests/mpi/pml.hpp tests/mpi/comm/use.hpp tests/mpi/gpu.hpp
tests_mpi_comm_churn_LDADD = $(MPI_TEST_LIBS)
tests_mpi_comm_counted_SOURCES = tests/mpi/comm/counted.cpp tests/mpi/comm/cost.hpp tests/mpi/pml.hpp tests/mpi/comm/use.hpp tests/mpi/gpu.hpp
tests_mpi_comm_counted_LDADD = $(MPI_TEST_LIBS)
tests_mpi_comm_dynamic_SOURCES = tests/mpi/comm/dynamic.cpp tests/mpi/comm/use.hpp tests/mpi/gpu.hpp
tests_mpi_comm_dynamic_LDADD = $(MPI_TEST_LIBS)
tests_mpi_comm_ends_SOURCES = tests/mpi/comm/ends.cpp tests/mpi/comm/use.hpp tests/mpi/gpu.hpp
tests_mpi_comm_ends_LDADD = $(MPI_TEST_LIBS)
tests_mpi_comm_failing_SOURCES = tests/mpi/comm/failing.cpp tests/mpi/gpu.hpp
tests_mpi_comm_failing_LDADD = $(MPI_TEST_LIBS)
tests_mpi_comm_freed_between_SOURCES = tests/mpi/comm/freed_between.cpp tests/mpi/gpu.hpp
tests_mpi_comm_freed_between_LDADD = $(MPI_TEST_LIBS)
tests_mpi_comm_idle_SOURCES = tests/mpi/comm/idle.cpp tests/mpi/comm/cost.hpp tests/mpi/pml.hpp tests/mpi/comm/use.hpp tests/mpi/gpu.hpp
tests_mpi_comm_idle_LDADD = $(MPI_TEST_LIBS)
tests_mpi_comm_idup_SOURCES = tests/mpi/comm/idup.cpp tests/mpi/comm/use.hpp tests/mpi/gpu.hpp
tests_mpi_comm_idup_LDADD = $(MPI_TEST_LIBS)
tests_mpi_comm_made_SOURCES = tests/mpi/comm/made.cpp tests/mpi/comm/use.hpp tests/mpi/gpu.hpp
tests_mpi_comm_made_LDADD = $(MPI_TEST_LIBS)
tests_mpi_comm_children_SOURCES = tests/mpi/comm/children.cpp tests/mpi/comm/use.hpp tests/mpi/gpu.hpp
tests_mpi_comm_children_LDADD = $(MPI_TEST_LIBS)
tests_mpi_comm_groups_SOURCES = tests/mpi/comm/groups.cpp tests/mpi/comm/use.hpp tests/mpi/gpu.hpp
tests_mpi_comm_groups_LDADD = $(MPI_TEST_LIBS)
tests_mpi_comm_random_SOURCES = tests/mpi/comm/random.cpp tests/mpi/comm/use.hpp tests/mpi/gpu.hpp tests/random_seed.hpp
tests_mpi_comm_random_LDADD = $(MPI_TEST_LIBS)
tests_mpi_comm_deserter_SOURCES = tests/mpi/comm/deserter.cpp
tests_mpi_comm_deserter_LDADD = $(MPI_TEST_LIBS)
tests_mpi_comm_spawned_jobs_SOURCES = tests/mpi/comm/spawned_jobs.cpp
tests_mpi_comm_spawned_jobs_LDADD = $(MPI_TEST_LIBS)
tests_mpi_comm_ranks_SOURCES = tests/mpi/comm/ranks.cpp tests/mpi/comm/use.hpp tests/mpi/gpu.hpp
tests_mpi_comm_ranks_LDADD = $(MPI_TEST_LIBS)
