# Messages of unknown size.
message_tests = tests/mpi/message/broadcast tests/mpi/message/exchange tests/mpi/message/large tests/mpi/message/refused \
    tests/mpi/message/spawned
EXTRA_PROGRAMS += $(message_tests) tests/mpi/message/counted
TESTS += $(message_tests) tests/mpi/message/counted.test
EXTRA_DIST += tests/mpi/message/counted.test
message_test_sources = tests/mpi/message/content.hpp tests/mpi/gpu.hpp tests/random_seed.hpp
tests_mpi_message_broadcast_SOURCES = tests/mpi/message/broadcast.cpp $(message_test_sources)
tests_mpi_message_broadcast_LDADD = $(RELINKED_LIBS)
tests_mpi_message_broadcast_LDFLAGS = $(RELINKED_LINK)
tests_mpi_message_counted_SOURCES = tests/mpi/message/counted.cpp $(message_test_sources)
tests_mpi_message_counted_LDADD = $(RELINKED_LIBS)
tests_mpi_message_counted_LDFLAGS = $(RELINKED_LINK)
tests_mpi_message_exchange_SOURCES = tests/mpi/message/exchange.cpp $(message_test_sources)
tests_mpi_message_exchange_LDADD = $(RELINKED_LIBS)
tests_mpi_message_exchange_LDFLAGS = $(RELINKED_LINK)
tests_mpi_message_large_SOURCES = tests/mpi/message/large.cpp $(message_test_sources)
tests_mpi_message_large_LDADD = $(RELINKED_LIBS)
tests_mpi_message_large_LDFLAGS = $(RELINKED_LINK)
tests_mpi_message_refused_SOURCES = tests/mpi/message/refused.cpp $(message_test_sources)
tests_mpi_message_refused_LDADD = $(RELINKED_LIBS)
tests_mpi_message_refused_LDFLAGS = $(RELINKED_LINK)
tests_mpi_message_spawned_SOURCES = tests/mpi/message/spawned.cpp $(message_test_sources)
tests_mpi_message_spawned_LDADD = $(RELINKED_LIBS)
tests_mpi_message_spawned_LDFLAGS = $(RELINKED_LINK)
