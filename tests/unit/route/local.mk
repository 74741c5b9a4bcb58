# The tuning file: what the command writes is what the library reads. What wrappers ask about sizes.
if HAVE_GTEST
EXTRA_PROGRAMS += tests/unit/route/tuning tests/unit/route/small
tests_unit_route_tuning_SOURCES = tests/unit/route/tuning.cpp src/cli/tune_table.cpp
tests_unit_route_tuning_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_route_tuning_LDADD = $(UNIT_LIBS)
tests_unit_route_small_SOURCES = tests/unit/route/small.cpp
tests_unit_route_small_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_route_small_LDADD = $(UNIT_LIBS)
TESTS += tests/unit/route/tuning tests/unit/route/small
endif
