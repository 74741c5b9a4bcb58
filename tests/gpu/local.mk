# Checks and measurements for a machine with a GPU: tests/gpu/run.sh. They are built with the tests and run on virtual GPUs too.
EXTRA_PROGRAMS += tests/gpu/allreduce tests/gpu/captures tests/gpu/communicators tests/gpu/driver_calls tests/gpu/kernels \
    tests/gpu/locations tests/gpu/messages tests/gpu/waits
tests_gpu_kernels_SOURCES = tests/gpu/kernels.cpp tests/mpi/gpu.hpp
tests_gpu_kernels_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS)
tests_gpu_kernels_LDADD = libswy.la $(MPI_LIBS) $(HWLOC_LIBS) -ldl
tests_gpu_messages_SOURCES = tests/gpu/messages.cpp tests/mpi/gpu.hpp
tests_gpu_messages_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS) $(NCCL_CPPFLAGS)
tests_gpu_messages_LDADD = $(MPI_TEST_LIBS)
tests_gpu_allreduce_SOURCES = tests/gpu/allreduce.cpp tests/mpi/gpu.hpp
tests_gpu_allreduce_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS) $(NCCL_CPPFLAGS)
tests_gpu_allreduce_LDADD = $(MPI_TEST_LIBS)
tests_gpu_locations_SOURCES = tests/gpu/locations.cpp tests/mpi/gpu.hpp
tests_gpu_locations_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS)
tests_gpu_locations_LDADD = libswy.la $(MPI_LIBS) $(HWLOC_LIBS) -ldl
tests_gpu_communicators_SOURCES = tests/gpu/communicators.cpp tests/mpi/gpu.hpp
tests_gpu_communicators_LDADD = $(MPI_TEST_LIBS)
tests_gpu_driver_calls_SOURCES = tests/gpu/driver_calls.cpp tests/mpi/gpu.hpp
tests_gpu_driver_calls_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS)
tests_gpu_driver_calls_LDADD = -ldl
tests_gpu_waits_SOURCES = tests/gpu/waits.cpp tests/gpu/owner.hpp tests/mpi/gpu.hpp
tests_gpu_waits_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS)
tests_gpu_waits_LDADD = -ldl -lpthread
tests_gpu_captures_SOURCES = tests/gpu/captures.cpp tests/gpu/captures.hpp tests/gpu/owner.hpp tests/mpi/gpu.hpp
tests_gpu_captures_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS)
tests_gpu_captures_LDADD = -ldl -lpthread
TESTS += tests/gpu/answers.test tests/gpu/checks.test
EXTRA_DIST += tests/gpu/run.sh tests/gpu/checks.py tests/gpu/answers.test tests/gpu/checks.test tests/gpu/answers/captures tests/gpu/answers/waits
