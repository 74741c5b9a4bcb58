# Datatypes: layouts against type maps and MPI_Pack, elements against C and MPI.
if HAVE_GTEST
EXTRA_PROGRAMS += tests/unit/datatype/layout tests/unit/datatype/element tests/unit/datatype/narrow_float \
    tests/unit/datatype/plan
tests_unit_datatype_layout_SOURCES = tests/unit/datatype/layout.cpp tests/unit/datatype/random_type.cpp \
    tests/unit/datatype/random_type.hpp
tests_unit_datatype_layout_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_datatype_layout_LDADD = $(UNIT_LIBS)
tests_unit_datatype_element_SOURCES = tests/unit/datatype/element.cpp
tests_unit_datatype_element_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_datatype_element_LDADD = $(UNIT_LIBS)
tests_unit_datatype_narrow_float_SOURCES = tests/unit/datatype/narrow_float.cpp tests/mpi/types/small_floats.hpp
tests_unit_datatype_narrow_float_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_datatype_narrow_float_LDADD = $(UNIT_LIBS)
tests_unit_datatype_plan_SOURCES = tests/unit/datatype/plan.cpp tests/unit/datatype/random_type.cpp \
    tests/unit/datatype/random_type.hpp
tests_unit_datatype_plan_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_datatype_plan_LDADD = $(UNIT_LIBS)
TESTS += tests/unit/datatype/layout tests/unit/datatype/element tests/unit/datatype/narrow_float \
    tests/unit/datatype/plan
endif
