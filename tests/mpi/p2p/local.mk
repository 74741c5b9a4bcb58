# Point-to-point as programs see it: random message graphs against arithmetic, and every call that can wait while a large
# message needs this process.
p2p_test_buffers = tests/mpi/p2p/buffer.cpp tests/mpi/p2p/buffer.hpp tests/mpi/p2p/layout.cpp tests/mpi/p2p/layout.hpp \
    tests/mpi/staged/views.hpp tests/mpi/gpu.hpp tests/random_seed.hpp
EXTRA_PROGRAMS += tests/mpi/p2p/differential tests/mpi/p2p/progress tests/mpi/p2p/envelope_payload tests/mpi/p2p/large \
    tests/mpi/p2p/columns tests/mpi/p2p/errors tests/mpi/p2p/late_handler tests/mpi/p2p/one_buffer tests/mpi/p2p/pairs tests/mpi/p2p/truncation tests/mpi/p2p/unseen tests/mpi/p2p/waits
TESTS += tests/mpi/p2p/differential tests/mpi/p2p/progress tests/mpi/p2p/envelope_payload tests/mpi/p2p/large \
    tests/mpi/p2p/columns tests/mpi/p2p/errors tests/mpi/p2p/late_handler tests/mpi/p2p/one_buffer tests/mpi/p2p/pairs tests/mpi/p2p/truncation tests/mpi/p2p/unseen tests/mpi/p2p/waits
tests_mpi_p2p_differential_SOURCES = tests/mpi/p2p/completing.cpp tests/mpi/p2p/differential.cpp tests/mpi/p2p/graph.cpp \
    tests/mpi/p2p/graph.hpp tests/mpi/p2p/player.cpp tests/mpi/p2p/player.hpp tests/mpi/p2p/receiving.cpp \
    tests/mpi/p2p/sending.cpp $(p2p_test_buffers)
tests_mpi_p2p_differential_LDADD = $(MPI_TEST_LIBS)
tests_mpi_p2p_progress_SOURCES = tests/mpi/p2p/progress.cpp tests/mpi/p2p/progress.hpp tests/mpi/pml.hpp \
    tests/mpi/p2p/progress_collectives.cpp tests/mpi/p2p/progress_communicators.cpp tests/mpi/p2p/progress_files.cpp \
    tests/mpi/p2p/progress_messages.cpp tests/mpi/p2p/progress_windows.cpp $(p2p_test_buffers)
tests_mpi_p2p_progress_LDADD = $(MPI_TEST_LIBS)
check_LTLIBRARIES += tests/mpi/p2p/libhide_progress.la
tests_mpi_p2p_libhide_progress_la_SOURCES = tests/mpi/p2p/hide_progress.c
tests_mpi_p2p_libhide_progress_la_LIBADD = -ldl
tests_mpi_p2p_libhide_progress_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -rpath /nowhere
check_LTLIBRARIES += tests/mpi/p2p/libhold_sends.la
tests_mpi_p2p_libhold_sends_la_SOURCES = tests/mpi/p2p/hold_sends.cpp
tests_mpi_p2p_libhold_sends_la_LIBADD = $(MPI_LIBS) -ldl
tests_mpi_p2p_libhold_sends_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -rpath /nowhere
TESTS += tests/mpi/p2p/held_sends.test tests/mpi/p2p/hidden_progress.test tests/mpi/p2p/mapped.test
EXTRA_DIST += tests/mpi/p2p/held_sends.test tests/mpi/p2p/hidden_progress.test tests/mpi/p2p/mapped.test
EXTRA_PROGRAMS += tests/mpi/p2p/mapped
tests_mpi_p2p_mapped_SOURCES = tests/mpi/p2p/mapped.cpp tests/mpi/gpu.hpp tests/random_seed.hpp
tests_mpi_p2p_mapped_LDADD = $(MPI_TEST_LIBS)
# Payloads made like envelopes are made by the library's own code; all else is what a program sees.
tests_mpi_p2p_envelope_payload_SOURCES = tests/mpi/p2p/envelope_payload.cpp $(p2p_test_buffers)
tests_mpi_p2p_envelope_payload_LDADD = libswy.la $(HWLOC_LIBS) $(MPI_TEST_LIBS)
tests_mpi_p2p_large_SOURCES = tests/mpi/p2p/large.cpp $(p2p_test_buffers)
tests_mpi_p2p_large_LDADD = $(MPI_TEST_LIBS)
tests_mpi_p2p_columns_SOURCES = tests/mpi/p2p/columns.cpp tests/mpi/gpu.hpp
tests_mpi_p2p_columns_LDADD = $(MPI_TEST_LIBS)
tests_mpi_p2p_errors_SOURCES = tests/mpi/p2p/errors.cpp tests/mpi/p2p/erroneous.hpp tests/mpi/p2p/truncated.hpp tests/mpi/gpu.hpp
tests_mpi_p2p_errors_LDADD = $(MPI_TEST_LIBS)
tests_mpi_p2p_late_handler_SOURCES = tests/mpi/p2p/late_handler.cpp tests/mpi/gpu.hpp
tests_mpi_p2p_late_handler_LDADD = $(MPI_TEST_LIBS)
tests_mpi_p2p_one_buffer_SOURCES = tests/mpi/p2p/one_buffer.cpp tests/mpi/gpu.hpp
tests_mpi_p2p_one_buffer_LDADD = $(MPI_TEST_LIBS)
tests_mpi_p2p_pairs_SOURCES = tests/mpi/p2p/pairs.cpp tests/mpi/gpu.hpp
tests_mpi_p2p_pairs_LDADD = $(MPI_TEST_LIBS)
tests_mpi_p2p_truncation_SOURCES = tests/mpi/p2p/truncation.cpp tests/mpi/gpu.hpp
tests_mpi_p2p_truncation_LDADD = $(MPI_TEST_LIBS)

# Receives whose memory is the program's again, that have hardly any room, and that fail.
receive_tests = tests/mpi/p2p/address_space tests/mpi/p2p/given_away tests/mpi/p2p/short_receives tests/mpi/p2p/throwing
EXTRA_PROGRAMS += $(receive_tests)
TESTS += $(receive_tests)
tests_mpi_p2p_address_space_SOURCES = tests/mpi/p2p/address_space.cpp tests/mpi/p2p/truncated.hpp tests/mpi/gpu.hpp
tests_mpi_p2p_address_space_LDADD = $(MPI_TEST_LIBS)
tests_mpi_p2p_given_away_SOURCES = tests/mpi/p2p/given_away.cpp tests/mpi/p2p/truncated.hpp tests/mpi/gpu.hpp
tests_mpi_p2p_given_away_LDADD = $(MPI_TEST_LIBS)
tests_mpi_p2p_short_receives_SOURCES = tests/mpi/p2p/short_receives.cpp tests/mpi/p2p/truncated.hpp tests/mpi/gpu.hpp
tests_mpi_p2p_short_receives_LDADD = $(MPI_TEST_LIBS)
tests_mpi_p2p_throwing_SOURCES = tests/mpi/p2p/throwing.cpp tests/mpi/p2p/truncated.hpp tests/mpi/gpu.hpp
tests_mpi_p2p_throwing_LDADD = $(MPI_TEST_LIBS)

EXTRA_PROGRAMS += tests/mpi/p2p/probing
tests_mpi_p2p_probing_SOURCES = tests/mpi/p2p/probing.cpp tests/mpi/gpu.hpp
tests_mpi_p2p_probing_LDADD = $(MPI_TEST_LIBS) -lpthread
check_LTLIBRARIES += tests/mpi/p2p/libdetain.la
tests_mpi_p2p_libdetain_la_SOURCES = tests/mpi/p2p/detain.c
tests_mpi_p2p_libdetain_la_LIBADD = $(MPI_LIBS) -ldl
tests_mpi_p2p_libdetain_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -rpath /nowhere
EXTRA_PROGRAMS += tests/mpi/p2p/probe_status
tests_mpi_p2p_probe_status_SOURCES = tests/mpi/p2p/probe_status.cpp
tests_mpi_p2p_probe_status_LDADD = $(MPI_TEST_LIBS) -lpthread
check_LTLIBRARIES += tests/mpi/p2p/libdetain_probe.la
tests_mpi_p2p_libdetain_probe_la_SOURCES = tests/mpi/p2p/detain_probe.c
tests_mpi_p2p_libdetain_probe_la_LIBADD = $(MPI_LIBS) -ldl
tests_mpi_p2p_libdetain_probe_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -rpath /nowhere
TESTS += tests/mpi/p2p/probing.test tests/mpi/p2p/probe_status.test
EXTRA_DIST += tests/mpi/p2p/probing.test tests/mpi/p2p/probe_status.test

# Messages that a probe has taken from MPI.
EXTRA_PROGRAMS += tests/mpi/p2p/kept_freed tests/mpi/p2p/start_kept tests/mpi/p2p/synchronous tests/mpi/p2p/two_probes
TESTS += tests/mpi/p2p/kept_freed tests/mpi/p2p/start_kept tests/mpi/p2p/synchronous tests/mpi/p2p/two_probes
tests_mpi_p2p_kept_freed_SOURCES = tests/mpi/p2p/kept_freed.cpp
tests_mpi_p2p_kept_freed_LDADD = $(MPI_TEST_LIBS)
tests_mpi_p2p_start_kept_SOURCES = tests/mpi/p2p/start_kept.cpp tests/mpi/p2p/ways.hpp tests/mpi/gpu.hpp
tests_mpi_p2p_start_kept_LDADD = $(MPI_TEST_LIBS)
tests_mpi_p2p_synchronous_SOURCES = tests/mpi/p2p/synchronous.cpp tests/mpi/gpu.hpp
tests_mpi_p2p_synchronous_LDADD = $(MPI_TEST_LIBS)
tests_mpi_p2p_two_probes_SOURCES = tests/mpi/p2p/two_probes.cpp tests/mpi/gpu.hpp
tests_mpi_p2p_two_probes_LDADD = $(MPI_TEST_LIBS) -lpthread

tests_mpi_p2p_unseen_SOURCES = tests/mpi/p2p/unseen.cpp tests/mpi/gpu.hpp
tests_mpi_p2p_unseen_LDADD = $(MPI_TEST_LIBS)
tests_mpi_p2p_waits_SOURCES = tests/mpi/p2p/waits.cpp tests/mpi/gpu.hpp
tests_mpi_p2p_waits_LDADD = $(MPI_TEST_LIBS)

# Point-to-point: what carries a payload, driven by hand.
TRANSFER_TEST_LIBS = libswy.la $(HWLOC_LIBS) $(MPI_TEST_LIBS)
pipeline_tests = tests/mpi/p2p/pipeline tests/mpi/p2p/pipeline_peer tests/mpi/p2p/pipeline_failures \
    tests/mpi/p2p/pipeline_large
EXTRA_PROGRAMS += $(pipeline_tests)
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

# Which NCCL communicator carries messages, and that no order of them ends in a deadlock.
EXTRA_PROGRAMS += tests/mpi/p2p/policies tests/mpi/p2p/faulty
tests_mpi_p2p_faulty_SOURCES = tests/mpi/p2p/faulty.cpp tests/mpi/gpu.hpp
tests_mpi_p2p_faulty_LDADD = $(MPI_TEST_LIBS)
tests_mpi_p2p_policies_SOURCES = tests/mpi/p2p/policies.cpp tests/mpi/gpu.hpp
tests_mpi_p2p_policies_LDADD = $(MPI_TEST_LIBS)
TESTS += tests/mpi/p2p/policies tests/mpi/p2p/lanes.test tests/mpi/p2p/faults.test
EXTRA_DIST += tests/mpi/p2p/lanes.test tests/mpi/p2p/faults.test

# Requests of ours: from behind the wrappers, and as programs see them.
EXTRA_PROGRAMS += tests/mpi/p2p/asking tests/mpi/p2p/handles tests/mpi/p2p/requests
TESTS += tests/mpi/p2p/asking tests/mpi/p2p/handles tests/mpi/p2p/requests
tests_mpi_p2p_asking_SOURCES = tests/mpi/p2p/asking.cpp
tests_mpi_p2p_asking_LDADD = $(TRANSFER_TEST_LIBS)
tests_mpi_p2p_handles_SOURCES = tests/mpi/p2p/handles.cpp tests/mpi/p2p/ways.hpp
tests_mpi_p2p_handles_LDADD = $(TRANSFER_TEST_LIBS)
tests_mpi_p2p_requests_SOURCES = tests/mpi/p2p/requests.cpp tests/mpi/p2p/ways.hpp tests/mpi/gpu.hpp
tests_mpi_p2p_requests_LDADD = $(MPI_TEST_LIBS)

# Partitions of one message.
EXTRA_PROGRAMS += tests/mpi/p2p/partitioned
TESTS += tests/mpi/p2p/partitioned tests/mpi/p2p/partitioned_routes.test
EXTRA_DIST += tests/mpi/p2p/partitioned_routes.test
tests_mpi_p2p_partitioned_SOURCES = tests/mpi/p2p/partitioned.cpp tests/mpi/gpu.hpp
tests_mpi_p2p_partitioned_LDADD = $(MPI_TEST_LIBS)
