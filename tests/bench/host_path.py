#!/usr/bin/env python3
"""Time of host calls with the library over without, both in turns within one process: 1.00 is the goal.

Usage: host_path.py BUILD-FOLDER [ROUNDS]. Prints a row for each call; "noise" is the same ratio of MPI's own function to
itself. Asserts nothing, since time on a shared machine is noise. The GPUs are virtual ones: of the rows with GPUs, those
"in use" hold the time of the virtual driver's pointer query, which says nothing of a real driver's.

Where each rank has a core, Open MPI does not yield it, as is its default; where they share cores, it does. Two ranks may also meet on two
hardware threads of one core, which halves or quarters the time of a small message, and so makes more of the same few nanoseconds: look at
the time without.
"""
import os
import statistics
import subprocess
import sys

build = sys.argv[1]
rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 3
JOBS = {
    "no GPUs": [],
    "GPUs, not in use": ["--gpus", "4"],
    "GPUs in use": ["--gpus", "4", "-x", "HOST_CALLS_USE_GPU=1"],
}
CALLS = [("pingpong", 2, 8), ("pingpong", 2, 1 << 20), ("allreduce", 2, 8), ("allreduce", 2, 1 << 16), ("allreduce", 2, 1 << 20),
         ("window", 2, 1 << 13), ("window", 2, 1 << 16), ("window", 2, 1 << 20), ("one-buffer", 2, 1 << 16), ("one-buffer", 2, 1 << 20),
         ("alltoallv", 2, 8), ("gatherv", 2, 8), ("split", 2, 0), ("dup", 2, 0), ("pingpong", 4, 8), ("allreduce", 4, 8), ("allreduce", 4, 1 << 16), ("allreduce", 4, 1 << 20)]
CORES = len(os.sched_getaffinity(0))


def once(job, ranks, call, size):
    command = [f"{build}/tests/launch", "-n", str(ranks), *JOBS[job], "--timeout", "120", "-x", f"OMPI_MCA_mpi_yield_when_idle={int(ranks > CORES)}", "--"]
    command += [f"{build}/tests/bench/host_calls", "compare", call, str(size)]
    ratio, noise, own = map(float, subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())
    return ratio, noise, own


for job in JOBS:
    for call, ranks, size in CALLS:
        ratio, noise, own = (statistics.median(column) for column in zip(*(once(job, ranks, call, size) for _ in range(rounds))))
        print(f"{job:17} {call:10} {ranks} ranks {size:8} bytes: ratio {ratio:.3f} (noise {noise:.3f}, {own:.3f} us without)", flush=True)
