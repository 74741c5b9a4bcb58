# libswitchyard, in two steps: everything but the wrappers is collected in libswy.la, which the unit tests link too (its
# symbols are hidden in the shared library); mpi_compat/local.mk adds the wrappers to libswitchyard.la itself.
noinst_LTLIBRARIES += libswy.la
libswy_la_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS) $(NCCL_CPPFLAGS) $(HWLOC_CFLAGS) \
    -DSWY_BIN_FROM_LIB='"$(bin_from_lib)"'
# Each folder's fragment lists its sources as FOLDER_sources.
if UNITY
nodist_libswy_la_SOURCES = unity/version.cpp unity/call.cpp unity/error.cpp unity/report.cpp unity/datatype.cpp \
    unity/progress.cpp unity/pack.cpp unity/nccl.cpp unity/comm.cpp unity/request.cpp unity/staging.cpp \
    unity/window.cpp unity/fastpath.cpp unity/p2p.cpp unity/coll.cpp unity/dispatch.cpp unity/message_header.cpp unity/multi.cpp \
    unity/named.cpp unity/stream.cpp unity/tool.cpp unity/init.cpp
libswy_la_SOURCES =
else
libswy_la_SOURCES = $(version_sources) $(call_sources) $(error_sources) $(report_sources) $(datatype_sources) \
    $(progress_sources) $(pack_sources) $(nccl_sources) $(comm_sources) $(request_sources) $(staging_sources) \
    $(window_sources) $(fastpath_sources) $(p2p_sources) $(coll_sources) $(dispatch_sources) $(message_header_sources) $(multi_sources) \
    $(named_sources) $(stream_sources) $(tool_sources) $(init_sources)
nodist_libswy_la_SOURCES =
endif
libswy_la_LIBADD = libswy_common.la $(MPI_LIBS) $(HWLOC_LIBS) -ldl

# What the library shares with its programs. It calls no function of MPI.
noinst_LTLIBRARIES += libswy_common.la
libswy_common_la_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS) $(HWLOC_CFLAGS)
if UNITY
nodist_libswy_common_la_SOURCES = unity/reason.cpp unity/settings.cpp unity/formatting.cpp unity/report_text.cpp \
    unity/topology.cpp unity/device.cpp
else
libswy_common_la_SOURCES = $(reason_sources) $(settings_sources) $(formatting_sources) $(report_text_sources) \
    $(topology_sources) $(device_sources)
endif

lib_LTLIBRARIES += libswitchyard.la
libswitchyard_la_SOURCES = src/library.cpp
nodist_libswitchyard_la_SOURCES =
# libtool does not hand on where libswy.la finds an MPI that the system does not know of.
libswitchyard_la_LIBADD = libswy.la $(MPI_LIBS) $(SANITIZER_LIBS)
# libmpi is named once more after --no-as-needed: RTLD_NEXT finds the real MPI only while it is a needed library.
libswitchyard_la_LDFLAGS = $(AM_LDFLAGS) -version-info $(SWY_VERSION_INFO) -no-undefined \
    -Wl,--version-script=$(top_srcdir)/src/switchyard.map -Wl,--no-as-needed,-lmpi -Wl,-z,defs
libswitchyard_la_DEPENDENCIES = libswy.la src/switchyard.map
EXTRA_DIST += src/switchyard.map

