# Unit tests of what is known of communicators.

if HAVE_GTEST
EXTRA_PROGRAMS += tests/unit/comm/group_file
tests_unit_comm_group_file_SOURCES = tests/unit/comm/group_file.cpp
tests_unit_comm_group_file_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_comm_group_file_LDADD = $(UNIT_LIBS)
TESTS += tests/unit/comm/group_file
endif
