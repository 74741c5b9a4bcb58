# Finds Open MPI through its compiler wrappers, asks them for flags and builds with our own compiler.
# Sets MPI_CPPFLAGS, MPI_LIBS, MPI_LIBDIR, MPI_LIBRARY (the libmpi.so that programs load), MPI_VENDOR_VERSION,
# and the programs MPICC, MPICXX, MPIFORT, MPIRUN.
AC_DEFUN([SWY_MPI],[
  AC_ARG_VAR([MPICC],[Open MPI's C compiler wrapper])
  AC_ARG_VAR([MPICXX],[Open MPI's C++ compiler wrapper])
  AC_ARG_VAR([MPIFORT],[Open MPI's Fortran compiler wrapper])
  AC_ARG_VAR([MPIRUN],[Open MPI's mpirun])
  # A wrapper that was named decides where the others are looked for, so that they belong together.
  swy_mpi_dir=
  for swy_w in "$MPICXX" "$MPICC"; do
    AS_CASE([$swy_w],[*/*],[swy_mpi_dir=`dirname "$swy_w"`])
  done
  AS_IF([test -n "$swy_mpi_dir"],[swy_mpi_path=$swy_mpi_dir],[swy_mpi_path=$PATH])
  AC_PATH_PROGS([MPICXX],[mpicxx mpic++ mpicxx.openmpi],[],[$swy_mpi_path])
  AC_PATH_PROGS([MPICC],[mpicc mpicc.openmpi],[],[$swy_mpi_path])
  AC_PATH_PROGS([MPIFORT],[mpifort mpif90 mpifort.openmpi],[],[$swy_mpi_path])
  AC_PATH_PROGS([MPIRUN],[mpirun mpiexec mpirun.openmpi],[],[$swy_mpi_path])

  swy_wrapper=$MPICC
  test -n "$swy_wrapper" || swy_wrapper=$MPICXX
  AS_IF([test -z "$swy_wrapper"],
    [SWY_MISSING([an MPI compiler wrapper (mpicc, mpicxx) on PATH or in MPICC, MPICXX],[libopenmpi-dev])],
    [_SWY_MPI_ASK])
  AS_IF([test -z "$MPIRUN"],[SWY_MISSING([mpirun],[openmpi-bin])])
  AC_SUBST([MPI_CPPFLAGS])
  AC_SUBST([MPI_LIBS])
  AC_SUBST([MPI_LIBDIR])
  AC_SUBST([MPI_LIBRARY])
  AC_SUBST([MPI_VENDOR_VERSION])
])

AC_DEFUN([_SWY_MPI_ASK],[
  AC_MSG_CHECKING([which MPI $swy_wrapper belongs to])
  swy_says=`$swy_wrapper --showme:version 2>/dev/null | head -n 1`
  AS_CASE([$swy_says],
    [*"Open MPI"*],[MPI_VENDOR_VERSION=`echo "$swy_says" | sed 's/.*Open MPI \([[0-9.]]*\).*/\1/'`],
    [MPI_VENDOR_VERSION=])
  AS_IF([test -z "$MPI_VENDOR_VERSION"],[
    swy_says=`$swy_wrapper -v 2>&1 | grep -i -m1 version; $swy_wrapper -show 2>/dev/null | head -n 1`
    AC_MSG_RESULT([not Open MPI])
    AC_MSG_ERROR([$swy_wrapper is not Open MPI's. It says:
    $swy_says
  Switchyard stands on Open MPI 4.1 or 5.0. On Debian: apt-get install libopenmpi-dev openmpi-bin
  Then name its wrapper where another MPI comes first: ./configure MPICC=mpicc.openmpi MPICXX=mpicxx.openmpi MPIRUN=mpirun.openmpi])])
  AC_MSG_RESULT([Open MPI $MPI_VENDOR_VERSION])
  AS_CASE([$MPI_VENDOR_VERSION],[4.1*|5.*],[],
    [AC_MSG_WARN([Switchyard is tested with Open MPI 4.1 and 5.0, not with $MPI_VENDOR_VERSION])])

  # -isystem: warnings inside mpi.h are not ours. The C++ bindings (-lmpi_cxx) are not used.
  MPI_CPPFLAGS="-DOMPI_SKIP_MPICXX -DMPICH_SKIP_MPICXX `$swy_wrapper --showme:compile | sed 's/-I\([[^ ]]\)/-isystem \1/g; s/-pthread//'`"
  MPI_LIBDIR=`$swy_wrapper --showme:libdirs | cut -d' ' -f1`
  MPI_LIBS=`$swy_wrapper --showme:link | tr ' ' '\n' | grep -v '^-lmpi_cxx$' | grep -v '^-pthread$' | tr '\n' ' '`

  AC_LANG_PUSH([C++])
  swy_save_CPPFLAGS=$CPPFLAGS; swy_save_LIBS=$LIBS
  CPPFLAGS="$CPPFLAGS $MPI_CPPFLAGS"
  LIBS="-Wl,--no-as-needed $MPI_LIBS $LIBS"
  AC_MSG_CHECKING([whether $CXX links MPI programs, and the libmpi they load])
  AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <mpi.h>]],[[return MPI_Init(nullptr, nullptr);]])],[
    AS_IF([test $cross_compiling = yes],
      [MPI_LIBRARY=`readlink -f "$MPI_LIBDIR/libmpi.so"`],
      [MPI_LIBRARY=`LD_LIBRARY_PATH="$MPI_LIBDIR:$LD_LIBRARY_PATH" ldd ./conftest$EXEEXT | sed -n 's/.*libmpi\.so[[^ ]]* => \([[^ ]]*\).*/\1/p'`])
    AC_MSG_RESULT([$MPI_LIBRARY])],[
    AC_MSG_RESULT([no])
    SWY_MISSING([mpi.h and libmpi ($swy_wrapper is there but a program does not link; see config.log)],[libopenmpi-dev])])
  CPPFLAGS=$swy_save_CPPFLAGS; LIBS=$swy_save_LIBS
  AC_LANG_POP
  # An MPI outside the linker's usual folders is found by a run path, as the MPI's own wrappers arrange it.
  AS_CASE(["$MPI_LIBRARY $MPI_LIBS"],[/lib/*|/usr/lib/*|*-rpath*],[],
    [MPI_LIBS="$MPI_LIBS -Wl,-rpath,`dirname "$MPI_LIBRARY"`"])
  AC_DEFINE_UNQUOTED([SWY_MPI_VERSION],["$MPI_VENDOR_VERSION"],[the Open MPI that this was built with])
  SWY_FOUND([MPI],[Open MPI $MPI_VENDOR_VERSION ($MPI_LIBRARY)])
])
