# The wrappers' tests: the table against mpi.h, programs in four languages, profiling on top, MPI-IO, and the sweep.
TESTS += tests/wrappers/table.test
EXTRA_DIST += tests/wrappers/table.test tests/wrappers/table.py tests/wrappers/declared.c
check_DATA += tests/wrappers/declared.i
CLEANFILES += tests/wrappers/declared.i
tests/wrappers/declared.i: tests/wrappers/declared.c config.status
	@$(MKDIR_P) tests/wrappers
	$(AM_V_GEN)$(CC) -E -P $(MPI_CPPFLAGS) $(top_srcdir)/tests/wrappers/declared.c >$@.tmp && mv $@.tmp $@

# Wrappers that the MPI at hand has no use for (MPI 4.0, large counts) at least compile.
check_DATA += tests/wrappers/every/wrappers.o
CLEANFILES += tests/wrappers/every/*
tests/wrappers/every/wrappers.o: mpi_compat/generated.stamp
	@$(MKDIR_P) tests/wrappers/every
	$(AM_V_at)$(PYTHON3) $(top_srcdir)/mpi_compat/generate.py --list optional | cat - mpi_compat/available.txt \
	    >tests/wrappers/every/names.txt
	$(AM_V_at)$(PYTHON3) $(top_srcdir)/mpi_compat/generate.py --available tests/wrappers/every/names.txt \
	    --headers tests/wrappers/every --sources tests/wrappers/every
	$(AM_V_at)cat tests/wrappers/every/wrappers_*.cpp >tests/wrappers/every/all.cpp
	$(AM_V_CXX)$(every_compile) -o $@ tests/wrappers/every/all.cpp
# Not with the header that tests have in common: clang refuses one that has been compiled with other flags (-fPIC).
tests/wrappers/every/%.o: private CXXFLAGS := $(CXXFLAGS)
every_compile = $(CXX) -Itests/wrappers/every $(DEFS) $(DEFAULT_INCLUDES) $(AM_CPPFLAGS) $(CUDA_CPPFLAGS) $(NCCL_CPPFLAGS) \
    $(AM_CXXFLAGS) $(CXXFLAGS) -O0 -fPIC -MMD -MP -c
-include tests/wrappers/every/wrappers.d tests/wrappers/every/real.d tests/wrappers/every/coll.d

# The library over an MPI that has all of MPI 4: these wrappers, and what calls MPI by their real functions. The rest is taken
# from the archive, whose objects of the same functions are not wanted then.
if UNITY
every_coll = unity/coll.cpp
else
every_coll = $(top_srcdir)/src/coll/saved_call.cpp
endif
every_others = $(filter-out unity/wrappers.lo mpi_compat/wrappers_%.lo,$(libswitchyard_la_OBJECTS))
every_objects = $(foreach o,$(every_others),$(dir $(o)).libs/$(notdir $(o:.lo=.o)))
check_DATA += tests/wrappers/every/libswitchyard.so
tests/wrappers/every/real.o: tests/wrappers/every/wrappers.o
	$(AM_V_CXX)$(every_compile) -o $@ tests/wrappers/every/real.cpp
tests/wrappers/every/coll.o: tests/wrappers/every/wrappers.o
	$(AM_V_CXX)$(every_compile) -o $@ $(every_coll)
tests/wrappers/every/libswitchyard.so: tests/wrappers/every/wrappers.o tests/wrappers/every/real.o \
    tests/wrappers/every/coll.o libswitchyard.la
	$(AM_V_CXXLD)$(CXX) -shared $(AM_CXXFLAGS) $(CXXFLAGS) $(AM_LDFLAGS) $(LDFLAGS) -o $@ $(filter %.o,$^) $(every_objects) \
	    .libs/libswy.a -Wl,--version-script=$(top_srcdir)/src/switchyard.map $(HWLOC_LIBS) -ldl \
	    -Wl,--no-as-needed $(MPI_LIBS) $(SANITIZER_LIBS)

EXTRA_PROGRAMS += tests/wrappers/exchange_c tests/wrappers/exchange_c_relinked tests/wrappers/exchange_cxx \
    tests/wrappers/exchange_cxx_relinked tests/wrappers/io tests/wrappers/memory_kinds tests/wrappers/query tests/wrappers/tool_information
TESTS += tests/wrappers/exchange_c tests/wrappers/exchange_c_relinked tests/wrappers/exchange_cxx \
    tests/wrappers/exchange_cxx_relinked tests/wrappers/io tests/wrappers/memory_kinds tests/wrappers/query tests/wrappers/tool_information
device_memory_sources = tests/wrappers/device_memory.c tests/wrappers/device_memory.h
tests_wrappers_exchange_c_SOURCES = tests/wrappers/exchange_c.c $(device_memory_sources)
tests_wrappers_exchange_c_LDADD = $(MPI_TEST_LIBS)
tests_wrappers_exchange_c_relinked_SOURCES = tests/wrappers/exchange_c_relinked.c $(device_memory_sources)
tests_wrappers_exchange_c_relinked_LDADD = $(RELINKED_LIBS)
tests_wrappers_exchange_c_relinked_LDFLAGS = $(RELINKED_LINK)
tests_wrappers_exchange_cxx_SOURCES = tests/wrappers/exchange_cxx.cpp $(device_memory_sources)
tests_wrappers_exchange_cxx_LDADD = $(MPI_TEST_LIBS)
tests_wrappers_exchange_cxx_relinked_SOURCES = tests/wrappers/exchange_cxx_relinked.cpp $(device_memory_sources)
tests_wrappers_exchange_cxx_relinked_LDADD = $(RELINKED_LIBS)
tests_wrappers_exchange_cxx_relinked_LDFLAGS = $(RELINKED_LINK)
tests_wrappers_io_SOURCES = tests/wrappers/io.cpp $(device_memory_sources)
tests_wrappers_io_LDADD = $(MPI_TEST_LIBS)
tests_wrappers_memory_kinds_SOURCES = tests/wrappers/memory_kinds.c
tests_wrappers_memory_kinds_LDADD = $(MPI_TEST_LIBS)
tests_wrappers_tool_information_SOURCES = tests/wrappers/tool_information.c $(device_memory_sources)
tests_wrappers_tool_information_LDADD = $(MPI_TEST_LIBS)
tests_wrappers_query_SOURCES = tests/wrappers/query.c $(device_memory_sources)
tests_wrappers_query_LDADD = $(MPI_TEST_LIBS)

# A program's C calls, and those that Open MPI makes for Fortran, which have other names.
fortran_exchanges = tests/wrappers/exchange_mpi tests/wrappers/exchange_f08 tests/wrappers/exchange_mpifh
fortran_relinked = tests/wrappers/exchange_mpi_relinked tests/wrappers/exchange_f08_relinked \
    tests/wrappers/exchange_mpifh_relinked
fortran_exchange_sources = tests/wrappers/exchange_mpi.f90 tests/wrappers/exchange_f08.f90 tests/wrappers/exchange_mpifh.f90 \
    tests/wrappers/exchange_mpi_relinked.f90 tests/wrappers/exchange_f08_relinked.f90 \
    tests/wrappers/exchange_mpifh_relinked.f90 tests/wrappers/device_memory.f90 tests/wrappers/exchange_body.inc
EXTRA_DIST += $(fortran_exchange_sources)
if HAVE_FORTRAN
fortran_exchange_programs = $(fortran_exchanges) $(fortran_relinked)
TESTS += $(fortran_exchange_programs)
check_DATA += $(fortran_exchange_programs)
CLEANFILES += $(fortran_exchange_programs)
fortran_needs = tests/wrappers/device_memory.c $(fortran_exchange_sources) libswitchyard.la
# Each in a folder of its own, because every one makes the module file again.
fortran_build = mkdir -p $@.dir && cd $@.dir && $(CC) -c -o device_memory.o $(abs_top_srcdir)/tests/wrappers/device_memory.c && \
    $(MPIFORT) $(FCFLAGS) -g -I$(abs_top_srcdir)/tests/wrappers -o ../$(@F) \
    $(abs_top_srcdir)/tests/wrappers/device_memory.f90 $(abs_top_srcdir)/tests/wrappers/$(@F).f90 device_memory.o
$(fortran_exchanges): $(fortran_needs)
	$(AM_V_GEN)$(fortran_build) -ldl && cd .. && rm -rf $(@F).dir
$(fortran_relinked): $(fortran_needs)
	$(AM_V_GEN)$(fortran_build) -Wl,--no-as-needed -L$(abs_top_builddir)/.libs -lswitchyard -ldl && cd .. && rm -rf $(@F).dir
endif

wrapper_scripts = tests/wrappers/exchange_python.test tests/wrappers/link_order.test tests/wrappers/loaded_privately.test \
    tests/wrappers/profiler.test tests/wrappers/tools.test
TESTS += $(wrapper_scripts)
EXTRA_DIST += $(wrapper_scripts) tests/wrappers/exchange_python.py tests/wrappers/pickled.py tests/wrappers/loaded_privately.py
check_LTLIBRARIES += tests/wrappers/libprofiler.la
tests_wrappers_libprofiler_la_SOURCES = tests/wrappers/profiler.c
tests_wrappers_libprofiler_la_LIBADD = $(MPI_LIBS)
# -rpath makes it a shared library although it is not installed.
tests_wrappers_libprofiler_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -rpath /nowhere

EXTRA_PROGRAMS += tests/wrappers/sweep
TESTS += tests/wrappers/sweep
tests_wrappers_sweep_SOURCES = tests/wrappers/sweep.cpp tests/wrappers/sweep.hpp tests/wrappers/sweep_collective.cpp \
    tests/wrappers/sweep_file.cpp tests/wrappers/sweep_intercommunicator.cpp tests/wrappers/sweep_neighborhood.cpp \
    tests/wrappers/sweep_pack.cpp tests/wrappers/sweep_send_receive.cpp tests/collective_forms.hpp $(device_memory_sources)
nodist_tests_wrappers_sweep_SOURCES = tests/wrappers/refused_calls.cpp
tests_wrappers_sweep_LDADD = $(MPI_TEST_LIBS)
# The sweep with the large-count forms. The MPI that has them is a library under the one at hand.
check_LTLIBRARIES += tests/wrappers/liblarge_counts.la
tests_wrappers_liblarge_counts_la_SOURCES = tests/wrappers/large_counts_mpi.cpp tests/large_counts.hpp
tests_wrappers_liblarge_counts_la_LIBADD = $(MPI_LIBS) -ldl
tests_wrappers_liblarge_counts_la_LDFLAGS = $(AM_LDFLAGS) -avoid-version -rpath /nowhere
EXTRA_PROGRAMS += tests/wrappers/sweep_large
tests_wrappers_sweep_large_SOURCES = $(tests_wrappers_sweep_SOURCES) tests/large_counts.hpp
nodist_tests_wrappers_sweep_large_SOURCES = tests/wrappers/refused_calls.cpp
tests_wrappers_sweep_large_CPPFLAGS = $(AM_CPPFLAGS) -DSWY_LARGE_COUNTS
tests_wrappers_sweep_large_LDADD = tests/wrappers/liblarge_counts.la $(MPI_TEST_LIBS)
tests_wrappers_sweep_large_LDFLAGS = $(RELINKED_LINK)
EXTRA_PROGRAMS += tests/wrappers/large_numbers
tests_wrappers_large_numbers_SOURCES = tests/wrappers/large_numbers.cpp tests/large_counts.hpp $(device_memory_sources)
tests_wrappers_large_numbers_LDADD = tests/wrappers/liblarge_counts.la $(MPI_TEST_LIBS)
tests_wrappers_large_numbers_LDFLAGS = $(RELINKED_LINK)
TESTS += tests/wrappers/large_counts.test
EXTRA_DIST += tests/wrappers/large_counts.test
CLEANFILES += tests/wrappers/refused_calls.cpp
EXTRA_DIST += tests/wrappers/write_refused.py
tests/wrappers/refused_calls.cpp: tests/wrappers/write_refused.py mpi_compat/generated.stamp
	@$(MKDIR_P) tests/wrappers
	$(AM_V_GEN)$(PYTHON3) $(top_srcdir)/tests/wrappers/write_refused.py $(top_srcdir) mpi_compat/available.txt $@
