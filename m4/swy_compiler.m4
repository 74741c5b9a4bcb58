# The compilers: C++20, warnings, sanitizers, Python for the generators, Fortran and nvcc where they are there.

AC_DEFUN([SWY_CXX20],[
  AC_LANG_PUSH([C++])
  AC_CACHE_CHECK([whether $CXX takes -std=c++20],[swy_cv_cxx20],[
    swy_save_CXXFLAGS=$CXXFLAGS
    CXXFLAGS="$CXXFLAGS -std=c++20"
    AC_COMPILE_IFELSE([AC_LANG_PROGRAM([[#include <concepts>
#include <span>
template <std::integral T> T twice(T x) { return x + x; }]],[[std::span<const int> none; return twice(static_cast<int>(none.size()));]])],
      [swy_cv_cxx20=yes],[swy_cv_cxx20=no])
    CXXFLAGS=$swy_save_CXXFLAGS])
  AS_IF([test $swy_cv_cxx20 = no],[SWY_MISSING([a C++20 compiler ($CXX does not do; g++ 12 and clang++ 14 do)],[g++])])
  AC_LANG_POP
  SWY_FOUND([C++ compiler],[$CXX ($($CXX --version | head -n 1))])
])

AC_DEFUN([SWY_WARNINGS],[
  AC_ARG_ENABLE([werror],[AS_HELP_STRING([--enable-werror],[treat compiler warnings as errors])],[],[enable_werror=no])
  SWY_CXXFLAGS="-std=c++20 -fvisibility=hidden -fvisibility-inlines-hidden -Wall -Wextra"
  SWY_CFLAGS="-Wall -Wextra"
  # Off by default: it makes objects and libraries twenty times as large.
  AC_ARG_ENABLE([debug],[AS_HELP_STRING([--enable-debug],[with debugging information (-g)])],[],[enable_debug=no])
  AS_IF([test "$enable_debug" = yes],[
    SWY_CXXFLAGS="$SWY_CXXFLAGS -g"
    SWY_CFLAGS="$SWY_CFLAGS -g"])
  AS_IF([test "$enable_werror" = yes],[
    SWY_CXXFLAGS="$SWY_CXXFLAGS -Werror"
    SWY_CFLAGS="$SWY_CFLAGS -Werror"])
  AC_SUBST([SWY_CXXFLAGS])
  AC_SUBST([SWY_CFLAGS])
])

AC_DEFUN([SWY_UNITY],[
  AC_ARG_ENABLE([unity],
    [AS_HELP_STRING([--disable-unity],[compile each source for itself, not a folder's sources as one (takes longer)])],
    [],[enable_unity=yes])
  AM_CONDITIONAL([UNITY],[test "$enable_unity" = yes])
])

# --enable-sanitizers=address,undefined or =thread
AC_DEFUN([SWY_SANITIZERS],[
  AC_ARG_ENABLE([sanitizers],
    [AS_HELP_STRING([--enable-sanitizers=LIST],[build everything with these sanitizers, e.g. address,undefined])],
    [],[enable_sanitizers=no])
  AS_CASE([$enable_sanitizers],
    [no],[enable_sanitizers=],
    [yes],[enable_sanitizers=address,undefined])
  AS_IF([test -n "$enable_sanitizers"],[
    SWY_SANITIZE="-fsanitize=$enable_sanitizers -fno-omit-frame-pointer"
    SWY_CXXFLAGS="$SWY_CXXFLAGS $SWY_SANITIZE"
    SWY_CFLAGS="$SWY_CFLAGS $SWY_SANITIZE"
    AS_IF([$CXX --version | grep -qi clang],
      [AC_MSG_ERROR([--enable-sanitizers needs g++: clang links its sanitizers into programs only, not into the library that is preloaded])])
    # libtool links shared libraries with -nostdlib, which also leaves these out.
    AS_CASE([,$enable_sanitizers,],[*,address,*],[SANITIZER_LIBS="$SANITIZER_LIBS -lasan"])
    AS_CASE([,$enable_sanitizers,],[*,thread,*],[SANITIZER_LIBS="$SANITIZER_LIBS -ltsan"])
    AS_CASE([,$enable_sanitizers,],[*,undefined,*],[SANITIZER_LIBS="$SANITIZER_LIBS -lubsan"])
    SWY_FOUND([sanitizers],[$enable_sanitizers])])
  # Tests may take so many times longer.
  AS_IF([test -n "$enable_sanitizers"],[SWY_TIME_FACTOR=4],[SWY_TIME_FACTOR=1])
  AC_SUBST([SWY_TIME_FACTOR])
  AC_SUBST([SWY_SANITIZE])
  AC_SUBST([SANITIZER_LIBS])
  AC_SUBST([SANITIZERS],[$enable_sanitizers])
])

# Python writes the wrappers from the table of calls while building; the library does not need it.
AC_DEFUN([SWY_PYTHON],[
  AC_PATH_PROGS([PYTHON3],[python3 python])
  AS_IF([test -n "$PYTHON3" && "$PYTHON3" -c 'import sys; sys.exit(sys.version_info < (3, 9))' 2>/dev/null],
    [SWY_FOUND([Python],[$PYTHON3 ($($PYTHON3 --version 2>&1))])],
    [SWY_MISSING([Python 3.9 or newer (it writes the wrappers from the table of calls)],[python3])])
])

# gfortran is for the Fortran tests and example, and for swyfort.
AC_DEFUN([SWY_FORTRAN],[
  have_fortran=no
  AS_IF([test -n "$MPIFORT"],[
    AC_MSG_CHECKING([whether $MPIFORT compiles "use mpi_f08"])
    mkdir -p conftest.f
    cat >conftest.f/t.f90 <<'SWY_END'
program t
  use mpi_f08
  call MPI_Init()
  call MPI_Finalize()
end program
SWY_END
    AS_IF([(cd conftest.f && $MPIFORT -o t t.f90) >&AS_MESSAGE_LOG_FD 2>&1],[have_fortran=yes])
    rm -rf conftest.f
    AC_MSG_RESULT([$have_fortran])])
  AS_IF([test $have_fortran = yes],
    [SWY_FOUND([Fortran],[$MPIFORT])],
    [SWY_FOUND([Fortran],[none: Fortran tests and example are left out (Debian: gfortran)])])
  AM_CONDITIONAL([HAVE_FORTRAN],[test $have_fortran = yes])
])

# nvcc compiles kernels for real GPUs. Without it the library is complete but for those.
AC_DEFUN([SWY_NVCC],[
  AC_PATH_PROG([NVCC],[nvcc],[],[$PATH:$CUDA_DIR/bin:/usr/local/cuda/bin])
  NVCC_TARGETS=
  swy_oldest=
  AS_IF([test -n "$NVCC"],[
    swy_known=`"$NVCC" --list-gpu-code 2>/dev/null`
    for swy_target in 70 75 80 86 89 90 100 120; do
      AS_CASE([" "`echo $swy_known`" "],[*" sm_$swy_target "*],[
        test -n "$swy_oldest" || swy_oldest=$swy_target
        NVCC_TARGETS="$NVCC_TARGETS -gencode arch=compute_$swy_target,code=sm_$swy_target"])
    done
    # nvcc compresses device code in ways that older drivers do not know; it has this option since 12.8.
    NVCC_UNCOMPRESSED=
    AS_IF(["$NVCC" --help 2>/dev/null | grep -e --compress-mode >/dev/null],[NVCC_UNCOMPRESSED=-compress-mode=none])
    echo '#include <cstdint>
      extern "C" __global__ void kernel(std::uint64_t *x) { *x = 1; }' >conftest.cu
    AS_IF(["$NVCC" $NVCC_TARGETS $NVCC_UNCOMPRESSED -std=c++17 -fatbin -o conftest.fatbin conftest.cu >&AS_MESSAGE_LOG_FD 2>&1],
      [SWY_FOUND([nvcc],[$NVCC])],
      [SWY_FOUND([nvcc],[$NVCC does not compile (config.log): kernels are left out])
       NVCC=])
    rm -f conftest.cu conftest.fatbin
  ],[SWY_FOUND([nvcc],[none: kernels are left out (optional; Debian: nvidia-cuda-toolkit)])])
  AS_IF([test -n "$NVCC"],[
    AC_DEFINE([SWY_HAVE_KERNELS],[1],[nvcc compiles the kernels])
    AC_DEFINE_UNQUOTED([SWY_KERNEL_TARGETS],["`echo $swy_oldest | sed 's/.$/.&/'`"],[The oldest GPUs that they are for])])
  AC_SUBST([NVCC_TARGETS])
  AC_SUBST([NVCC_UNCOMPRESSED])
  AC_SUBST([NVCC_OLDEST],[$swy_oldest])
  AM_CONDITIONAL([HAVE_NVCC],[test -n "$NVCC"])
])

AC_DEFUN([SWY_GTEST],[
  AC_LANG_PUSH([C++])
  AC_ARG_VAR([GTEST_LIBS],[how to link GoogleTest with its main, default -lgtest_main -lgtest])
  : ${GTEST_LIBS="-lgtest_main -lgtest"}
  swy_save_LIBS=$LIBS
  swy_save_CXXFLAGS=$CXXFLAGS
  CXXFLAGS="$CXXFLAGS -std=c++20 -pthread -O0 -g0"
  LIBS="$GTEST_LIBS -lpthread $LIBS"
  AC_CACHE_CHECK([for GoogleTest],[swy_cv_gtest],[
    AC_LINK_IFELSE([AC_LANG_SOURCE([[#include <gtest/gtest.h>
TEST(A, B) { EXPECT_EQ(1, 1); }]])],[swy_cv_gtest=yes],[swy_cv_gtest=no])])
  LIBS=$swy_save_LIBS
  CXXFLAGS=$swy_save_CXXFLAGS
  AS_IF([test $swy_cv_gtest = yes],
    [SWY_FOUND([GoogleTest],[yes])],
    [SWY_FOUND([GoogleTest],[none: unit tests are left out (Debian: libgtest-dev)])])
  AM_CONDITIONAL([HAVE_GTEST],[test $swy_cv_gtest = yes])
  AC_LANG_POP
])
