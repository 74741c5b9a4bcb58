# Communication in the order of CUDA streams.
stream_tests = tests/mpi/stream/mistakes tests/mpi/stream/no_wait tests/mpi/stream/random
EXTRA_PROGRAMS += $(stream_tests) tests/mpi/stream/counted
TESTS += $(stream_tests) tests/mpi/stream/counted.test
EXTRA_DIST += tests/mpi/stream/counted.test
tests_mpi_stream_counted_SOURCES = tests/mpi/stream/counted.cpp tests/mpi/stream/queue.hpp tests/mpi/gpu.hpp
tests_mpi_stream_counted_LDADD = $(RELINKED_LIBS)
tests_mpi_stream_counted_LDFLAGS = $(RELINKED_LINK)
tests_mpi_stream_mistakes_SOURCES = tests/mpi/stream/mistakes.cpp tests/mpi/stream/queue.hpp tests/mpi/gpu.hpp
tests_mpi_stream_mistakes_LDADD = $(RELINKED_LIBS)
tests_mpi_stream_mistakes_LDFLAGS = $(RELINKED_LINK)
tests_mpi_stream_no_wait_SOURCES = tests/mpi/stream/no_wait.cpp tests/mpi/stream/queue.hpp tests/mpi/gpu.hpp
tests_mpi_stream_no_wait_LDADD = $(RELINKED_LIBS) -lpthread
tests_mpi_stream_no_wait_LDFLAGS = $(RELINKED_LINK)
tests_mpi_stream_random_SOURCES = tests/mpi/stream/random.cpp tests/mpi/stream/queue.hpp tests/mpi/gpu.hpp tests/random_seed.hpp
tests_mpi_stream_random_LDADD = $(RELINKED_LIBS)
tests_mpi_stream_random_LDFLAGS = $(RELINKED_LINK)
