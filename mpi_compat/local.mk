# The wrappers: what is written by hand here, what generate.py writes from the table of calls, and the coverage page.
# Generated sources lie in mpi_compat/ of the build folder, generated headers in its src/.
CALL_TABLE = $(top_srcdir)/mpi_compat/calls/collective.txt $(top_srcdir)/mpi_compat/calls/collective_persistent.txt \
    $(top_srcdir)/mpi_compat/calls/communicators.txt $(top_srcdir)/mpi_compat/calls/datatypes.txt \
    $(top_srcdir)/mpi_compat/calls/environment.txt $(top_srcdir)/mpi_compat/calls/files.txt \
    $(top_srcdir)/mpi_compat/calls/languages.txt $(top_srcdir)/mpi_compat/calls/neighborhood.txt \
    $(top_srcdir)/mpi_compat/calls/one_sided.txt $(top_srcdir)/mpi_compat/calls/point_to_point.txt \
    $(top_srcdir)/mpi_compat/calls/several_buffers.txt $(top_srcdir)/mpi_compat/calls/streams.txt
GENERATOR = $(top_srcdir)/mpi_compat/generate.py $(top_srcdir)/mpi_compat/calls.py \
    $(top_srcdir)/mpi_compat/write_headers.py $(top_srcdir)/mpi_compat/write_wrappers.py \
    $(top_srcdir)/mpi_compat/wrapper_call.py $(top_srcdir)/mpi_compat/wrapper_tests.py \
    $(top_srcdir)/mpi_compat/template.py $(top_srcdir)/mpi_compat/write_coverage.py \
    $(top_srcdir)/mpi_compat/write_manual.py
EXTRA_DIST += $(CALL_TABLE) $(GENERATOR) mpi_compat/calls/README.md

GENERATED_WRAPPERS = \
    mpi_compat/wrappers_collective.cpp \
    mpi_compat/wrappers_communicators.cpp \
    mpi_compat/wrappers_completion.cpp \
    mpi_compat/wrappers_file.cpp \
    mpi_compat/wrappers_file_handling.cpp \
    mpi_compat/wrappers_neighborhood.cpp \
    mpi_compat/wrappers_nonblocking.cpp \
    mpi_compat/wrappers_nonblocking_collective.cpp \
    mpi_compat/wrappers_nonblocking_file.cpp \
    mpi_compat/wrappers_nonblocking_neighborhood.cpp \
    mpi_compat/wrappers_one_sided.cpp \
    mpi_compat/wrappers_pack.cpp \
    mpi_compat/wrappers_persistent.cpp \
    mpi_compat/wrappers_persistent_collective.cpp \
    mpi_compat/wrappers_persistent_collective_extension.cpp \
    mpi_compat/wrappers_persistent_neighborhood.cpp \
    mpi_compat/wrappers_probe.cpp \
    mpi_compat/wrappers_reduction.cpp \
    mpi_compat/wrappers_send_receive.cpp \
    mpi_compat/wrappers_several_buffers.cpp \
    mpi_compat/wrappers_startup.cpp \
    mpi_compat/wrappers_streams.cpp \
    mpi_compat/wrappers_topology.cpp \
    mpi_compat/wrappers_windows.cpp
GENERATED = $(GENERATED_WRAPPERS) mpi_compat/real.cpp src/call_ids.hpp src/gated_calls.inc src/real.hpp

wrappers_sources = $(GENERATED_WRAPPERS)
mpi_compat_sources = mpi_compat/completion.cpp mpi_compat/wrapper.hpp mpi_compat/extensions.cpp mpi_compat/files.cpp \
    mpi_compat/fortran.cpp mpi_compat/lifecycle.cpp mpi_compat/memory_kinds.cpp mpi_compat/multi.cpp mpi_compat/partitioned.cpp \
    mpi_compat/streams.cpp mpi_compat/tool_control.cpp mpi_compat/tool_indices.hpp \
    mpi_compat/tool_performance.cpp mpi_compat/windows.cpp
if UNITY
nodist_libswitchyard_la_SOURCES += unity/wrappers.cpp unity/mpi_compat.cpp unity/message.cpp
else
libswitchyard_la_SOURCES += $(mpi_compat_sources) $(message_sources)
nodist_libswitchyard_la_SOURCES += $(wrappers_sources)
endif
nodist_libswy_la_SOURCES += mpi_compat/real.cpp src/call_ids.hpp src/gated_calls.inc src/real.hpp

mpi_compat/generated.stamp: $(GENERATOR) $(CALL_TABLE) mpi_compat/available.txt
	@$(MKDIR_P) mpi_compat src
	$(AM_V_GEN)$(PYTHON3) $(top_srcdir)/mpi_compat/generate.py --available mpi_compat/available.txt \
	    --headers src --sources mpi_compat && touch $@
# Files whose text did not change keep their time, so that a new row recompiles its family alone. A lost file is made again.
$(GENERATED): mpi_compat/generated.stamp
	@test -f $@ || { rm -f mpi_compat/generated.stamp; $(MAKE) $(AM_MAKEFLAGS) mpi_compat/generated.stamp; }
BUILT_SOURCES += $(GENERATED)
# For who makes one target before `all` has made the headers.
$(libswy_la_OBJECTS) $(libswitchyard_la_OBJECTS): | src/call_ids.hpp src/gated_calls.inc src/real.hpp
CLEANFILES += $(GENERATED) mpi_compat/generated.stamp

# What is documented in the repository; run after a change of the table.
.PHONY: coverage-page
coverage-page:
	$(PYTHON3) $(top_srcdir)/mpi_compat/generate.py --coverage $(top_srcdir)/docs/coverage.md
