# Libraries and headers other than MPI's: hwloc, the header-only ones, CUDA's headers (NCCL's is in third_party/nccl).

AC_DEFUN([SWY_HWLOC],[
  PKG_CHECK_MODULES([HWLOC],[hwloc >= 2.0],
    [SWY_FOUND([hwloc],[$($PKG_CONFIG --modversion hwloc)])],
    [AS_IF([test -n "$PKG_CONFIG"],[SWY_MISSING([hwloc 2.0 or newer],[libhwloc-dev])],
        [SWY_MISSING([pkg-config, which finds hwloc],[pkg-config libhwloc-dev])])])
])

# SWY_CXX_HEADER(HEADER, LABEL, DEBIAN-PACKAGE): whether it is there, by the preprocessor: some take seconds to compile.
AC_DEFUN([SWY_CXX_HEADER],[
  AC_MSG_CHECKING([for $1])
  AC_PREPROC_IFELSE([AC_LANG_SOURCE([[#include <$1>]])],[swy_have=yes],[swy_have=no])
  AC_MSG_RESULT([$swy_have])
  AS_IF([test $swy_have = yes],[SWY_FOUND([$2],[yes])],[SWY_MISSING([$2 (<$1>)],[$3])])
])

# FMT_CPPFLAGS: empty where fmt's compiled part can be one of our files (src/error/formatting.cpp), else its headers alone.
AC_DEFUN([SWY_FMT],[
  AC_MSG_CHECKING([whether fmt's compiled part can be built in])
  swy_save_CPPFLAGS=$CPPFLAGS
  CPPFLAGS="$CPPFLAGS -I$srcdir/src"
  AC_LINK_IFELSE([AC_LANG_PROGRAM([#include "error/formatting.cpp"],
      [return static_cast<int>(fmt::format("{} {:.3} {:L}", 1, 2.5, 1000).size());])],
    [AC_MSG_RESULT([yes]); FMT_CPPFLAGS=],
    [AC_MSG_RESULT([no]); FMT_CPPFLAGS=-DFMT_HEADER_ONLY=1])
  CPPFLAGS=$swy_save_CPPFLAGS
  AC_SUBST([FMT_CPPFLAGS])
])

AC_DEFUN([SWY_HEADER_ONLY],[
  AC_LANG_PUSH([C++])
  swy_save_CXXFLAGS=$CXXFLAGS
  CXXFLAGS="$CXXFLAGS -std=c++20 -O0 -g0"
  SWY_CXX_HEADER([nlohmann/json.hpp],[nlohmann-json],[nlohmann-json3-dev])
  SWY_CXX_HEADER([CLI/CLI.hpp],[CLI11],[libcli11-dev])
  SWY_CXX_HEADER([fmt/format.h],[fmt],[libfmt-dev])
  SWY_FMT
  CXXFLAGS=$swy_save_CXXFLAGS
  AC_LANG_POP
])

# SWY_FIND_HEADER_DIR(VARIABLE, HEADER, DIRS): the first of DIRS that holds HEADER.
AC_DEFUN([SWY_FIND_HEADER_DIR],[
  $1=
  for swy_d in $3; do
    AS_IF([test -r "$swy_d/$2"],[$1=$swy_d; break])
  done
])

# SWY_SYSTEM_INCLUDE(VARIABLE, DIR): the flag for DIR; none for /usr/include, which may not move in the search order.
AC_DEFUN([SWY_SYSTEM_INCLUDE],[
  AS_IF([test "$2" = /usr/include],[$1=],[$1="-isystem $2"])
])

# CUDA is needed for its headers only: the library loads the driver while it runs.
# --with-cuda=DIR: a toolkit, an include folder, or the folder that Python wheels were unpacked to.
AC_DEFUN([SWY_CUDA],[
  AC_ARG_WITH([cuda],[AS_HELP_STRING([--with-cuda=DIR],
    [CUDA headers (12.2 or newer): a toolkit, or a folder of unpacked nvidia-cuda-runtime, -crt and -cccl wheels @<:@nvcc's toolkit, /usr/local/cuda, /usr@:>@])],
    [],[with_cuda=])
  AS_CASE([$with_cuda],
    [no],[AC_MSG_ERROR([Switchyard is about CUDA memory: its headers cannot be left out (the library itself runs without CUDA)])],
    [yes|''],[
      swy_nvcc=`command -v nvcc`
      AS_IF([test -n "$swy_nvcc"],[swy_nvcc=`readlink -f "$swy_nvcc"`; swy_dirs="`dirname "$swy_nvcc"`/.."])
      swy_dirs="$swy_dirs /usr/local/cuda /usr/lib/cuda /usr"],
    [swy_dirs=$with_cuda])
  swy_try=
  for swy_d in $swy_dirs; do
    swy_try="$swy_try $swy_d/include $swy_d/targets/x86_64-linux/include $swy_d/targets/sbsa-linux/include $swy_d/nvidia/cu13/include $swy_d/nvidia/cuda_runtime/include $swy_d"
  done
  AC_MSG_CHECKING([for CUDA's headers])
  SWY_FIND_HEADER_DIR([CUDA_INCLUDE],[cuda_runtime_api.h],[$swy_try])
  AS_IF([test -n "$CUDA_INCLUDE"],[
    CUDA_INCLUDE=`cd "$CUDA_INCLUDE" && pwd -P`
    CUDA_DIR=`dirname "$CUDA_INCLUDE"`
    SWY_SYSTEM_INCLUDE([CUDA_CPPFLAGS],[$CUDA_INCLUDE])
    # Older wheels keep each part in a folder of its own.
    for swy_d in $swy_dirs; do
      for swy_part in cuda_nvcc cuda_crt cuda_cccl; do
        AS_IF([test -d "$swy_d/nvidia/$swy_part/include"],[CUDA_CPPFLAGS="$CUDA_CPPFLAGS -isystem $swy_d/nvidia/$swy_part/include"])
      done
    done
    AC_MSG_RESULT([$CUDA_INCLUDE])
    _SWY_CUDA_CHECK
  ],[
    AC_MSG_RESULT([no])
    SWY_MISSING([CUDA headers (looked in $swy_dirs; name them by --with-cuda=DIR, or let ./quickstart fetch them)],[])])
  AC_SUBST([CUDA_INCLUDE])
  AC_SUBST([CUDA_DIR])
  AC_SUBST([CUDA_MAJOR])
  AC_SUBST([CUDA_CPPFLAGS])
])

# The version of the headers found, and whether they are complete. NCCL's header includes all that is used of them.
AC_DEFUN([_SWY_CUDA_CHECK],[
  AC_LANG_PUSH([C++])
  swy_save_CPPFLAGS=$CPPFLAGS
  CPPFLAGS="$CPPFLAGS $CUDA_CPPFLAGS -I$srcdir/third_party/nccl"
  AC_COMPUTE_INT([swy_cuda_version],[CUDA_VERSION],[#include <cuda.h>],[swy_cuda_version=0])
  CUDA_MAJOR=$((swy_cuda_version / 1000))
  swy_cuda_text=$CUDA_MAJOR.$((swy_cuda_version % 1000 / 10))
  AC_COMPILE_IFELSE([AC_LANG_PROGRAM([#include <cuda.h>
#include <nccl.h>])],[swy_cuda_complete=yes],[swy_cuda_complete=no])
  CPPFLAGS=$swy_save_CPPFLAGS
  AC_LANG_POP
  AS_IF([test "$swy_cuda_version" -gt 0 && test "$swy_cuda_version" -lt 12020],
      [SWY_MISSING([CUDA headers of 12.2 or newer (those in $CUDA_INCLUDE are of CUDA $swy_cuda_text; name others by --with-cuda=DIR, or let ./quickstart fetch them)],[])],
    [test $swy_cuda_complete = yes],[SWY_FOUND([CUDA headers],[$swy_cuda_text ($CUDA_INCLUDE)])],
    [SWY_MISSING([complete CUDA headers (those in $CUDA_INCLUDE do not compile; see config.log. With wheels, crt and cccl are needed too)],[])])
])
