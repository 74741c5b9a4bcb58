# The tuning file: what the command writes is what the library reads.
if HAVE_GTEST
check_PROGRAMS += tests/unit/route/tuning
tests_unit_route_tuning_SOURCES = tests/unit/route/tuning.cpp src/cli/tune_table.cpp
tests_unit_route_tuning_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_route_tuning_LDADD = $(UNIT_LIBS)
TESTS += tests/unit/route/tuning
endif
