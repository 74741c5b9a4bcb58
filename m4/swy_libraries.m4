# Libraries and headers other than MPI's: hwloc, the header-only ones, CUDA's and NCCL's headers.

AC_DEFUN([SWY_HWLOC],[
  PKG_CHECK_MODULES([HWLOC],[hwloc >= 2.0],
    [SWY_FOUND([hwloc],[$($PKG_CONFIG --modversion hwloc)])],
    [SWY_MISSING([hwloc 2.0 or newer],[libhwloc-dev])])
])

# SWY_CXX_HEADER(HEADER, LABEL, DEBIAN-PACKAGE)
AC_DEFUN([SWY_CXX_HEADER],[
  AC_CHECK_HEADER([$1],[swy_have=yes],[swy_have=no],[#define FMT_HEADER_ONLY 1])
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
  CXXFLAGS="$CXXFLAGS -std=c++20"
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
    [CUDA headers: a toolkit, or a folder of unpacked nvidia-cuda-runtime and nvidia-cuda-crt wheels @<:@nvcc's toolkit, /usr/local/cuda, /usr@:>@])],
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
    swy_try="$swy_try $swy_d/include $swy_d/targets/x86_64-linux/include $swy_d/nvidia/cu13/include $swy_d/nvidia/cuda_runtime/include $swy_d"
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
    AC_LANG_PUSH([C++])
    swy_save_CPPFLAGS=$CPPFLAGS
    CPPFLAGS="$CPPFLAGS $CUDA_CPPFLAGS"
    AC_COMPUTE_INT([swy_cuda_version],[CUDA_VERSION],[#include <cuda.h>
#include <cuda_runtime.h>],[swy_cuda_version=0])
    CPPFLAGS=$swy_save_CPPFLAGS
    AC_LANG_POP
    AS_IF([test "$swy_cuda_version" -gt 0],
      [SWY_FOUND([CUDA headers],[$((swy_cuda_version / 1000)).$((swy_cuda_version % 1000 / 10)) ($CUDA_INCLUDE)])],
      [SWY_MISSING([complete CUDA headers (those in $CUDA_INCLUDE do not compile; see config.log. With wheels, nvidia-cuda-crt is needed too)],[nvidia-cuda-toolkit])])
  ],[
    AC_MSG_RESULT([no])
    SWY_MISSING([CUDA headers (looked in $swy_dirs; name them by --with-cuda=DIR, or let ./quickstart fetch them)],[nvidia-cuda-toolkit])])
  AC_SUBST([CUDA_INCLUDE])
  AC_SUBST([CUDA_DIR])
  AC_SUBST([CUDA_CPPFLAGS])
])

AC_DEFUN([SWY_NCCL],[
  AC_ARG_WITH([nccl],[AS_HELP_STRING([--with-nccl=DIR],
    [NCCL header: a prefix, an include folder, or a folder of an unpacked nvidia-nccl-cu13 wheel @<:@with CUDA's, /usr@:>@])],
    [],[with_nccl=])
  AS_CASE([$with_nccl],
    [no],[AC_MSG_ERROR([NCCL's header cannot be left out (the library itself runs without NCCL)])],
    [yes|''],[swy_dirs="$with_cuda $CUDA_DIR /usr /usr/local"],
    [swy_dirs=$with_nccl])
  swy_try=
  for swy_d in $swy_dirs; do
    swy_try="$swy_try $swy_d/include $swy_d/nvidia/nccl/include $swy_d"
  done
  AC_MSG_CHECKING([for NCCL's header])
  SWY_FIND_HEADER_DIR([NCCL_INCLUDE],[nccl.h],[$swy_try])
  AS_IF([test -n "$NCCL_INCLUDE"],[
    NCCL_INCLUDE=`cd "$NCCL_INCLUDE" && pwd -P`
    AC_MSG_RESULT([$NCCL_INCLUDE])
    SWY_SYSTEM_INCLUDE([NCCL_CPPFLAGS],[$NCCL_INCLUDE])
    AC_LANG_PUSH([C++])
    swy_save_CPPFLAGS=$CPPFLAGS
    CPPFLAGS="$CPPFLAGS $CUDA_CPPFLAGS $NCCL_CPPFLAGS"
    AC_COMPUTE_INT([swy_nccl_version],[NCCL_VERSION_CODE],[#include <nccl.h>],[swy_nccl_version=0])
    CPPFLAGS=$swy_save_CPPFLAGS
    AC_LANG_POP
    AS_IF([test "$swy_nccl_version" -ge 21800],
      [SWY_FOUND([NCCL header],[$((swy_nccl_version / 10000)).$((swy_nccl_version % 10000 / 100)).$((swy_nccl_version % 100)) ($NCCL_INCLUDE)])],
      [SWY_MISSING([an NCCL header of 2.18 or newer ($NCCL_INCLUDE/nccl.h is $swy_nccl_version)],[libnccl-dev])])
  ],[
    AC_MSG_RESULT([no])
    SWY_MISSING([NCCL's header nccl.h (looked in $swy_dirs; name it by --with-nccl=DIR, or let ./quickstart fetch it)],[libnccl-dev])])
  AC_SUBST([NCCL_CPPFLAGS])
])
