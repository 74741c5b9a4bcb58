# Point-to-point: what carries a payload, driven by hand.
TRANSFER_TEST_LIBS = libswy.la $(HWLOC_LIBS) $(MPI_TEST_LIBS)
pipeline_tests = tests/mpi/p2p/pipeline tests/mpi/p2p/pipeline_peer tests/mpi/p2p/pipeline_failures \
    tests/mpi/p2p/pipeline_large
check_PROGRAMS += $(pipeline_tests)
TESTS += $(pipeline_tests)
tests_mpi_p2p_pipeline_SOURCES = tests/mpi/p2p/pipeline.cpp tests/mpi/p2p/transfers.hpp tests/mpi/gpu.hpp
tests_mpi_p2p_pipeline_LDADD = $(TRANSFER_TEST_LIBS)
tests_mpi_p2p_pipeline_peer_SOURCES = tests/mpi/p2p/pipeline_peer.cpp tests/mpi/p2p/transfers.hpp tests/mpi/gpu.hpp
tests_mpi_p2p_pipeline_peer_LDADD = $(TRANSFER_TEST_LIBS)
tests_mpi_p2p_pipeline_peer_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=mmap
tests_mpi_p2p_pipeline_failures_SOURCES = tests/mpi/p2p/pipeline_failures.cpp tests/mpi/p2p/transfers.hpp tests/mpi/gpu.hpp
tests_mpi_p2p_pipeline_failures_LDADD = $(TRANSFER_TEST_LIBS)
tests_mpi_p2p_pipeline_large_SOURCES = tests/mpi/p2p/pipeline_large.cpp tests/mpi/p2p/transfers.hpp tests/mpi/gpu.hpp
tests_mpi_p2p_pipeline_large_LDADD = $(TRANSFER_TEST_LIBS)
