# The choice of GPUs: cases in plain files (tests/topology), and random tables checked by trying all choices.
topology_files = tests/topology/cases.tsv \
    tests/topology/amd_only.xml tests/topology/disallowed.xml tests/topology/eight_nodes.xml \
    tests/topology/interleaved.xml tests/topology/mesh.xml tests/topology/mixed.xml tests/topology/no_devices.xml \
    tests/topology/one_cache_each.xml tests/topology/one_side.xml tests/topology/ring.xml tests/topology/sixteen.xml \
    tests/topology/storage_nics.xml tests/topology/switched.xml tests/topology/memory.tsv tests/topology/nics.tsv \
    tests/topology/cube.xml tests/topology/domains.xml tests/topology/near.tsv tests/topology/orders.tsv tests/topology/orders_recorded.tsv
EXTRA_DIST += $(topology_files) tests/topology/README.md
if HAVE_GTEST
EXTRA_PROGRAMS += tests/unit/topology/topology
tests_unit_topology_topology_SOURCES = tests/unit/topology/cases.cpp tests/unit/topology/choice.cpp \
    tests/unit/topology/cpus.cpp tests/unit/topology/order.cpp tests/unit/topology/places.cpp \
    tests/unit/topology/read_cases.cpp \
    tests/unit/topology/read_cases.hpp tests/unit/topology/random_node.cpp tests/unit/topology/random_node.hpp \
    tests/random_seed.hpp
tests_unit_topology_topology_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_topology_topology_LDADD = $(UNIT_LIBS)
TESTS += tests/unit/topology/topology
endif
