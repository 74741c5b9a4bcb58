# The doors' tests: the table against mpi.h, programs in four languages, profiling on top, MPI-IO, and the sweep.
TESTS += tests/doors/table.test
EXTRA_DIST += tests/doors/table.test tests/doors/table.py tests/doors/declared.c
check_DATA += tests/doors/declared.i
CLEANFILES += tests/doors/declared.i
tests/doors/declared.i: tests/doors/declared.c config.status
	@$(MKDIR_P) tests/doors
	$(AM_V_GEN)$(CC) -E -P $(MPI_CPPFLAGS) $(top_srcdir)/tests/doors/declared.c >$@.tmp && mv $@.tmp $@

# Doors that the MPI at hand has no use for (MPI 4.0, large counts) at least compile.
check_DATA += tests/doors/every/doors.o
CLEANFILES += tests/doors/every/*
tests/doors/every/doors.o: mpi_compat/generated.stamp
	@$(MKDIR_P) tests/doors/every
	$(AM_V_at)$(PYTHON3) $(top_srcdir)/mpi_compat/generate.py --list optional >tests/doors/every/names.txt
	$(AM_V_at)$(PYTHON3) $(top_srcdir)/mpi_compat/generate.py --available tests/doors/every/names.txt \
	    --headers tests/doors/every --sources tests/doors/every
	$(AM_V_at)cat tests/doors/every/doors_*.cpp >tests/doors/every/all.cpp
	$(AM_V_CXX)$(CXX) -Itests/doors/every $(DEFS) $(DEFAULT_INCLUDES) $(AM_CPPFLAGS) $(AM_CXXFLAGS) $(CXXFLAGS) -O0 -fPIC \
	    -c -o $@ tests/doors/every/all.cpp

check_PROGRAMS += tests/doors/exchange_c tests/doors/exchange_c_relinked tests/doors/exchange_cxx \
    tests/doors/exchange_cxx_relinked tests/doors/io tests/doors/query
TESTS += tests/doors/exchange_c tests/doors/exchange_c_relinked tests/doors/exchange_cxx \
    tests/doors/exchange_cxx_relinked tests/doors/io tests/doors/query
device_memory_sources = tests/doors/device_memory.c tests/doors/device_memory.h
tests_doors_exchange_c_SOURCES = tests/doors/exchange_c.c $(device_memory_sources)
tests_doors_exchange_c_LDADD = $(MPI_TEST_LIBS)
tests_doors_exchange_c_relinked_SOURCES = tests/doors/exchange_c_relinked.c $(device_memory_sources)
tests_doors_exchange_c_relinked_LDADD = $(RELINKED_LIBS)
tests_doors_exchange_c_relinked_LDFLAGS = $(RELINKED_LINK)
tests_doors_exchange_cxx_SOURCES = tests/doors/exchange_cxx.cpp $(device_memory_sources)
tests_doors_exchange_cxx_LDADD = $(MPI_TEST_LIBS)
tests_doors_exchange_cxx_relinked_SOURCES = tests/doors/exchange_cxx_relinked.cpp $(device_memory_sources)
tests_doors_exchange_cxx_relinked_LDADD = $(RELINKED_LIBS)
tests_doors_exchange_cxx_relinked_LDFLAGS = $(RELINKED_LINK)
tests_doors_io_SOURCES = tests/doors/io.cpp $(device_memory_sources)
tests_doors_io_LDADD = $(MPI_TEST_LIBS)
tests_doors_query_SOURCES = tests/doors/query.c $(device_memory_sources)
tests_doors_query_LDADD = $(MPI_TEST_LIBS)

# A program's C calls, and those that Open MPI makes for Fortran, which have other names.
fortran_exchanges = tests/doors/exchange_mpi tests/doors/exchange_f08 tests/doors/exchange_mpifh
fortran_relinked = tests/doors/exchange_mpi_relinked tests/doors/exchange_f08_relinked \
    tests/doors/exchange_mpifh_relinked
fortran_exchange_sources = tests/doors/exchange_mpi.f90 tests/doors/exchange_f08.f90 tests/doors/exchange_mpifh.f90 \
    tests/doors/exchange_mpi_relinked.f90 tests/doors/exchange_f08_relinked.f90 \
    tests/doors/exchange_mpifh_relinked.f90 tests/doors/device_memory.f90 tests/doors/exchange_body.inc
EXTRA_DIST += $(fortran_exchange_sources)
if HAVE_FORTRAN
fortran_exchange_programs = $(fortran_exchanges) $(fortran_relinked)
TESTS += $(fortran_exchange_programs)
check_DATA += $(fortran_exchange_programs)
CLEANFILES += $(fortran_exchange_programs)
fortran_needs = tests/doors/device_memory.c $(fortran_exchange_sources) libswitchyard.la
# Each in a folder of its own, because every one makes the module file again.
fortran_build = mkdir -p $@.dir && cd $@.dir && $(CC) -c -o device_memory.o $(abs_top_srcdir)/tests/doors/device_memory.c && \
    $(MPIFORT) $(FCFLAGS) -g -I$(abs_top_srcdir)/tests/doors -o ../$(@F) \
    $(abs_top_srcdir)/tests/doors/device_memory.f90 $(abs_top_srcdir)/tests/doors/$(@F).f90 device_memory.o
$(fortran_exchanges): $(fortran_needs)
	$(AM_V_GEN)$(fortran_build) -ldl && cd .. && rm -rf $(@F).dir
$(fortran_relinked): $(fortran_needs)
	$(AM_V_GEN)$(fortran_build) -Wl,--no-as-needed -L$(abs_top_builddir)/.libs -lswitchyard -ldl && cd .. && rm -rf $(@F).dir
endif

door_scripts = tests/doors/exchange_python.test tests/doors/loaded_privately.test tests/doors/profiler.test
TESTS += $(door_scripts)
EXTRA_DIST += $(door_scripts) tests/doors/exchange_python.py tests/doors/pickled.py tests/doors/loaded_privately.py
check_LTLIBRARIES += tests/doors/libprofiler.la
tests_doors_libprofiler_la_SOURCES = tests/doors/profiler.c
tests_doors_libprofiler_la_LIBADD = $(MPI_LIBS)
# -rpath makes it a shared library although it is not installed.
tests_doors_libprofiler_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -rpath /nowhere

check_PROGRAMS += tests/doors/sweep
TESTS += tests/doors/sweep
tests_doors_sweep_SOURCES = tests/doors/sweep.cpp tests/doors/sweep.hpp tests/doors/sweep_collective.cpp \
    tests/doors/sweep_file.cpp tests/doors/sweep_intercommunicator.cpp tests/doors/sweep_neighborhood.cpp \
    tests/doors/sweep_pack.cpp tests/doors/sweep_send_receive.cpp tests/collective_forms.hpp $(device_memory_sources)
nodist_tests_doors_sweep_SOURCES = tests/doors/refused_calls.cpp
tests_doors_sweep_LDADD = $(MPI_TEST_LIBS)
CLEANFILES += tests/doors/refused_calls.cpp
EXTRA_DIST += tests/doors/write_refused.py
tests/doors/refused_calls.cpp: tests/doors/write_refused.py mpi_compat/generated.stamp
	@$(MKDIR_P) tests/doors
	$(AM_V_GEN)$(PYTHON3) $(top_srcdir)/tests/doors/write_refused.py $(top_srcdir) mpi_compat/available.txt $@
