# Tests of the promise that programs of others, host programs and GPU programs, work as with plain MPI.
conformance_scripts = tests/conformance/host_programs.test tests/conformance/osu.test tests/conformance/osu_messages.test
TESTS += $(conformance_scripts)
EXTRA_DIST += $(conformance_scripts)

# Tells what each rank of OSU's benchmarks found, and damages results on purpose; for osu.test.
check_LTLIBRARIES += tests/conformance/libosu_watch.la
tests_conformance_libosu_watch_la_SOURCES = tests/conformance/osu_watch.c
tests_conformance_libosu_watch_la_LIBADD = $(MPI_LIBS) -ldl
tests_conformance_libosu_watch_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -rpath /nowhere
