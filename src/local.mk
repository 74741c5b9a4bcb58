# libswitchyard, in two steps: everything but the wrappers is collected in libswy.la, which the unit tests link too (its
# symbols are hidden in the shared library); mpi_compat/local.mk adds the wrappers to libswitchyard.la itself.
noinst_LTLIBRARIES += libswy.la
libswy_la_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS) $(NCCL_CPPFLAGS) $(HWLOC_CFLAGS)
libswy_la_SOURCES =
nodist_libswy_la_SOURCES =
libswy_la_LIBADD = $(MPI_LIBS) $(HWLOC_LIBS) -ldl

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

