# The staged carrier's packing, against type maps and MPI_Pack, on virtual GPUs.
if HAVE_GTEST
EXTRA_PROGRAMS += tests/unit/carrier/pack
tests_unit_carrier_pack_SOURCES = tests/unit/carrier/pack.cpp tests/unit/datatype/random_type.cpp \
    tests/unit/datatype/random_type.hpp tests/unit/device/virtual_gpus.hpp tests/random_seed.hpp
tests_unit_carrier_pack_CPPFLAGS = $(UNIT_CPPFLAGS) -I$(top_srcdir)/tests/unit
tests_unit_carrier_pack_LDADD = $(UNIT_LIBS)
TESTS += tests/unit/carrier/pack
endif
