# Point-to-point: what carries a payload, driven by hand.
TRANSFER_TEST_LIBS = libswy.la $(HWLOC_LIBS) $(MPI_TEST_LIBS)
check_PROGRAMS += tests/mpi/p2p/pipeline
tests_mpi_p2p_pipeline_SOURCES = tests/mpi/p2p/pipeline.cpp tests/mpi/p2p/transfers.hpp tests/mpi/gpu.hpp
tests_mpi_p2p_pipeline_LDADD = $(TRANSFER_TEST_LIBS)
TESTS += tests/mpi/p2p/pipeline
