#!/usr/bin/env python3
"""Time of host calls with the library over without, from one run in which both alternate: 1.00 is the goal.

Usage: host_path.py BUILD-FOLDER [ROUNDS]. Prints one ratio a row; asserts nothing, since time on a shared machine is noise.
"""
import subprocess
import sys

build = sys.argv[1]
rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 5


def once(way, ranks, call, size):
    command = [f"{build}/tests/launch", "-n", str(ranks), way, "--timeout", "120", "--", f"{build}/tests/bench/host_calls", "time", call, str(size)]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[-1])


for call, ranks, size in (("pingpong", 2, 8), ("pingpong", 2, 1 << 20), ("allreduce", 2, 8), ("allreduce", 2, 1 << 20)):
    times = {"--plain": [], "--preload": []}
    for _ in range(rounds):
        for way, seen in times.items():
            seen.append(once(way, ranks, call, size))
    with_library, without = min(times["--preload"]), min(times["--plain"])
    print(f"{call:10} {ranks} ranks {size:8} bytes: {with_library:9.3f} us with, {without:9.3f} us without, ratio {with_library / without:.3f}")
