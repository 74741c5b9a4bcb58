# The device layer: on stand-in drivers that do as they are told (states, pools, gate) and on virtual GPUs (memory, lanes).
if HAVE_GTEST
device_tests = tests/unit/device/states tests/unit/device/pools tests/unit/device/memory tests/unit/device/lanes \
    tests/unit/device/gate tests/unit/device/host_ranges
EXTRA_PROGRAMS += $(device_tests)
TESTS += $(device_tests) tests/unit/device/valgrind.test
tests_unit_device_states_SOURCES = tests/unit/device/states.cpp tests/unit/device/at_home.cpp \
    tests/unit/device/in_child.hpp tests/unit/device/fake_driver.h tests/unit/device/virtual_gpus.hpp
tests_unit_device_states_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_device_states_LDADD = $(UNIT_LIBS)
tests_unit_device_pools_SOURCES = tests/unit/device/pools.cpp tests/unit/device/in_child.hpp tests/unit/device/fake_driver.h
tests_unit_device_pools_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_device_pools_LDADD = $(UNIT_LIBS)
tests_unit_device_memory_SOURCES = tests/unit/device/memory.cpp tests/unit/device/virtual_gpus.hpp
tests_unit_device_memory_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_device_memory_LDADD = $(UNIT_LIBS)
tests_unit_device_lanes_SOURCES = tests/unit/device/lanes.cpp tests/unit/device/virtual_gpus.hpp
tests_unit_device_lanes_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_device_lanes_LDADD = $(UNIT_LIBS)
tests_unit_device_gate_SOURCES = tests/unit/device/gate.cpp tests/unit/device/in_child.hpp tests/unit/device/fake_driver.h
tests_unit_device_gate_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_device_gate_LDADD = $(UNIT_LIBS)
tests_unit_device_host_ranges_SOURCES = tests/unit/device/host_ranges.cpp
tests_unit_device_host_ranges_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_device_host_ranges_LDADD = $(UNIT_LIBS)

# Libraries that the tests load by name: linked by hand, since libtool knows no module called libcuda.so.1.
device_fakes = \
    tests/unit/device/fakes/current/libcuda.so.1 tests/unit/device/fakes/old/libcuda.so.1 \
    tests/unit/device/fakes/incomplete/libcuda.so.1 \
    tests/unit/device/fakes/plugin_one.so tests/unit/device/fakes/plugin_two.so
check_DATA += $(device_fakes)
CLEANFILES += $(device_fakes)
device_fake_link = $(AM_V_CXXLD)$(MKDIR_P) $(@D) && $(CXX) -shared -fPIC $(AM_CPPFLAGS) $(CUDA_CPPFLAGS) $(CPPFLAGS) \
    $(AM_CXXFLAGS) $(CXXFLAGS) $(AM_LDFLAGS) $(LDFLAGS) -Wl,-soname,libcuda.so.1 -o $@ $(srcdir)/tests/unit/device/fake_driver.cpp
device_fake_sources = tests/unit/device/fake_driver.cpp tests/unit/device/fake_driver.h
tests/unit/device/fakes/current/libcuda.so.1: $(device_fake_sources)
	$(device_fake_link) -DFAKE_PROC_ADDRESS
tests/unit/device/fakes/old/libcuda.so.1: $(device_fake_sources)
	$(device_fake_link)
tests/unit/device/fakes/incomplete/libcuda.so.1: $(device_fake_sources)
	$(device_fake_link) -DFAKE_INCOMPLETE
device_plugin_link = $(AM_V_CCLD)$(MKDIR_P) $(@D) && $(CC) -shared -fPIC $(AM_CFLAGS) $(CFLAGS) $(AM_LDFLAGS) $(LDFLAGS) -o $@ \
    $(srcdir)/tests/unit/device/plugin.c
tests/unit/device/fakes/plugin_one.so: tests/unit/device/plugin.c
	$(device_plugin_link) -DPLUGIN_VALUE=1
tests/unit/device/fakes/plugin_two.so: tests/unit/device/plugin.c
	$(device_plugin_link) -DPLUGIN_VALUE=2
endif
EXTRA_DIST += tests/unit/device/fake_driver.cpp tests/unit/device/plugin.c tests/unit/device/valgrind.test
