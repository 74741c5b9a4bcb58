# The agreement of the ranks and the launch order, without MPI: every interleaving of three ranks.
if HAVE_GTEST
EXTRA_PROGRAMS += tests/unit/coll/agreement
tests_unit_coll_agreement_SOURCES = tests/unit/coll/agreement.cpp tests/unit/coll/interleavings.hpp tests/random_seed.hpp
tests_unit_coll_agreement_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_coll_agreement_LDADD = $(UNIT_LIBS)
TESTS += tests/unit/coll/agreement

EXTRA_PROGRAMS += tests/unit/coll/launch_order
tests_unit_coll_launch_order_SOURCES = tests/unit/coll/launch_order.cpp tests/unit/coll/interleavings.hpp
tests_unit_coll_launch_order_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_coll_launch_order_LDADD = $(UNIT_LIBS)
TESTS += tests/unit/coll/launch_order
endif
