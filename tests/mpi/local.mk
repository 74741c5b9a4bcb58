# MPI tests: programs that run under tests/launch.

# Blocking collectives on device memory.
EXTRA_PROGRAMS += tests/mpi/ahead tests/mpi/collectives tests/mpi/deterministic tests/mpi/handlers tests/mpi/ignored tests/mpi/late tests/mpi/mismatch tests/mpi/nics tests/mpi/sessions tests/mpi/steps tests/mpi/suggest
tests_mpi_collectives_SOURCES = tests/mpi/collectives.cpp tests/mpi/gpu.hpp tests/random_seed.hpp
tests_mpi_collectives_LDADD = $(MPI_TEST_LIBS)
tests_mpi_deterministic_SOURCES = tests/mpi/deterministic.cpp tests/mpi/gpu.hpp
tests_mpi_deterministic_LDADD = $(MPI_TEST_LIBS)
tests_mpi_ahead_SOURCES = tests/mpi/ahead.cpp tests/mpi/gpu.hpp
tests_mpi_ahead_LDADD = $(MPI_TEST_LIBS)
tests_mpi_handlers_SOURCES = tests/mpi/handlers.cpp tests/mpi/p2p/erroneous.hpp tests/mpi/p2p/truncated.hpp tests/mpi/gpu.hpp tests/mpi/pml.hpp
tests_mpi_handlers_LDADD = $(MPI_TEST_LIBS)
tests_mpi_ignored_SOURCES = tests/mpi/ignored.cpp tests/mpi/gpu.hpp
tests_mpi_ignored_LDADD = $(MPI_TEST_LIBS)
tests_mpi_late_SOURCES = tests/mpi/late.cpp tests/mpi/gpu.hpp
tests_mpi_late_LDADD = $(MPI_TEST_LIBS)
tests_mpi_mismatch_SOURCES = tests/mpi/mismatch.cpp tests/mpi/gpu.hpp
tests_mpi_mismatch_LDADD = $(MPI_TEST_LIBS)
tests_mpi_sessions_SOURCES = tests/mpi/sessions.cpp tests/mpi/gpu.hpp
tests_mpi_sessions_LDADD = $(MPI_TEST_LIBS)
tests_mpi_steps_SOURCES = tests/mpi/steps.cpp tests/mpi/gpu.hpp
tests_mpi_steps_LDADD = $(MPI_TEST_LIBS)
tests_mpi_nics_SOURCES = tests/mpi/nics.cpp tests/mpi/gpu.hpp
tests_mpi_nics_LDADD = $(MPI_TEST_LIBS)
tests_mpi_suggest_SOURCES = tests/mpi/suggest.cpp tests/mpi/gpu.hpp
tests_mpi_suggest_LDADD = $(MPI_TEST_LIBS)
EXTRA_PROGRAMS += tests/mpi/near
tests_mpi_near_SOURCES = tests/mpi/near.cpp tests/mpi/gpu.hpp
tests_mpi_near_LDADD = $(MPI_TEST_LIBS)
TESTS += tests/mpi/near.test
EXTRA_DIST += tests/mpi/near.test
EXTRA_PROGRAMS += tests/mpi/orders
tests_mpi_orders_SOURCES = tests/mpi/orders.cpp tests/mpi/gpu.hpp tests/random_seed.hpp
tests_mpi_orders_LDADD = $(MPI_TEST_LIBS)
EXTRA_PROGRAMS += tests/mpi/begun tests/mpi/threads
tests_mpi_begun_SOURCES = tests/mpi/begun.cpp tests/mpi/gpu.hpp
tests_mpi_begun_LDADD = $(RELINKED_LIBS)
tests_mpi_begun_LDFLAGS = $(RELINKED_LINK)
tests_mpi_threads_SOURCES = tests/mpi/threads.cpp tests/mpi/gpu.hpp tests/random_seed.hpp
tests_mpi_threads_LDADD = $(MPI_TEST_LIBS)
TESTS += tests/mpi/orders tests/mpi/begun tests/mpi/threads
TESTS += tests/mpi/ahead tests/mpi/collectives tests/mpi/deterministic tests/mpi/handlers tests/mpi/ignored tests/mpi/late tests/mpi/mismatch tests/mpi/nics tests/mpi/sessions tests/mpi/suggest tests/mpi/mismatch_abort.test tests/mpi/routes.test
EXTRA_DIST += tests/mpi/mismatch_abort.test tests/mpi/routes.test

# Calls that must not be staged.
EXTRA_PROGRAMS += tests/mpi/required
tests_mpi_required_SOURCES = tests/mpi/required.cpp tests/mpi/gpu.hpp
tests_mpi_required_LDADD = $(RELINKED_LIBS)
tests_mpi_required_LDFLAGS = $(RELINKED_LINK)
TESTS += tests/mpi/required

# Ranks that wait long for another one.
EXTRA_PROGRAMS += tests/mpi/stalled
tests_mpi_stalled_SOURCES = tests/mpi/stalled.cpp tests/mpi/gpu.hpp
tests_mpi_stalled_LDADD = $(MPI_TEST_LIBS)
TESTS += tests/mpi/stalled.test
EXTRA_DIST += tests/mpi/stalled.test

# Collectives whose size no rank knows, on host memory for long.
EXTRA_PROGRAMS += tests/mpi/agreement_interval
tests_mpi_agreement_interval_SOURCES = tests/mpi/agreement_interval.cpp tests/mpi/gpu.hpp tests/random_seed.hpp
tests_mpi_agreement_interval_LDADD = $(MPI_TEST_LIBS)
TESTS += tests/mpi/agreement_interval.test
EXTRA_DIST += tests/mpi/agreement_interval.test

# Collectives that do not block, on communicators that nothing else has used.
EXTRA_PROGRAMS += tests/mpi/never_blocking
tests_mpi_never_blocking_SOURCES = tests/mpi/never_blocking.cpp tests/mpi/gpu.hpp tests/random_seed.hpp
tests_mpi_never_blocking_LDADD = $(MPI_TEST_LIBS)
TESTS += tests/mpi/never_blocking.test
EXTRA_DIST += tests/mpi/never_blocking.test

# Facts of hardware and of NVIDIA's libraries, each with a test that a kinder virtual GPU would pass at once.
EXTRA_PROGRAMS += tests/mpi/hardware/first_large
tests_mpi_hardware_first_large_SOURCES = tests/mpi/hardware/first_large.cpp tests/mpi/gpu.hpp
tests_mpi_hardware_first_large_LDADD = $(MPI_TEST_LIBS)
hardware_tests = tests/mpi/hardware/halo.test tests/mpi/hardware/kernels.test tests/mpi/hardware/nccl.test \
    tests/mpi/hardware/room.test tests/mpi/hardware/warm.test
TESTS += $(hardware_tests) tests/mpi/hardware/duplicates tests/mpi/hardware/memops tests/mpi/hardware/overlap \
    tests/mpi/hardware/scratch tests/mpi/hardware/threads_made tests/mpi/hardware/unaligned
EXTRA_DIST += $(hardware_tests)
EXTRA_PROGRAMS += tests/mpi/hardware/crowded tests/mpi/hardware/duplicates tests/mpi/hardware/halo \
    tests/mpi/hardware/memops tests/mpi/hardware/overlap tests/mpi/hardware/scratch tests/mpi/hardware/threads_made tests/mpi/hardware/unaligned
tests_mpi_hardware_duplicates_SOURCES = tests/mpi/hardware/duplicates.cpp tests/mpi/comm/cost.hpp tests/mpi/comm/use.hpp \
    tests/mpi/gpu.hpp tests/mpi/pml.hpp
tests_mpi_hardware_duplicates_LDADD = $(MPI_TEST_LIBS)
tests_mpi_hardware_threads_made_SOURCES = tests/mpi/hardware/threads_made.cpp tests/mpi/gpu.hpp
tests_mpi_hardware_threads_made_LDFLAGS = $(AM_LDFLAGS) -rdynamic
tests_mpi_hardware_threads_made_LDADD = $(MPI_TEST_LIBS)
tests_mpi_hardware_memops_SOURCES = tests/mpi/hardware/memops.cpp tests/mpi/gpu.hpp
tests_mpi_hardware_memops_LDADD = $(MPI_TEST_LIBS)
tests_mpi_hardware_overlap_SOURCES = tests/mpi/hardware/overlap.cpp tests/mpi/gpu.hpp
tests_mpi_hardware_overlap_LDADD = $(MPI_TEST_LIBS)
tests_mpi_hardware_unaligned_SOURCES = tests/mpi/hardware/unaligned.cpp tests/mpi/gpu.hpp
tests_mpi_hardware_unaligned_LDADD = $(MPI_TEST_LIBS)
tests_mpi_hardware_scratch_SOURCES = tests/mpi/hardware/scratch.cpp tests/mpi/gpu.hpp
tests_mpi_hardware_scratch_LDADD = $(MPI_TEST_LIBS)
tests_mpi_hardware_halo_SOURCES = tests/mpi/hardware/halo.cpp tests/mpi/p2p/layout.cpp tests/mpi/p2p/layout.hpp \
    tests/mpi/staged/views.hpp tests/mpi/gpu.hpp tests/random_seed.hpp
tests_mpi_hardware_halo_LDADD = $(MPI_TEST_LIBS)
tests_mpi_hardware_crowded_SOURCES = tests/mpi/hardware/crowded.cpp tests/mpi/gpu.hpp tests/random_seed.hpp
tests_mpi_hardware_crowded_LDADD = $(MPI_TEST_LIBS)

# A rank that dies, where MPI survives it.
EXTRA_PROGRAMS += tests/mpi/survivors
tests_mpi_survivors_SOURCES = tests/mpi/survivors.cpp tests/mpi/gpu.hpp tests/mpi/stream/queue.hpp tests/collective_forms.hpp
tests_mpi_survivors_LDADD = $(RELINKED_LIBS)
tests_mpi_survivors_LDFLAGS = $(RELINKED_LINK)
TESTS += tests/mpi/survivors.test
EXTRA_DIST += tests/mpi/survivors.test
