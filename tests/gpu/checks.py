#!/usr/bin/env python3
"""The checks and measurements of tests/gpu/run.sh, which builds first: what one GPU can show, with several ranks on it.

Prints one line a check and "N passed, N failed" last; writes OUT/summary.md, whose measurements can be pasted into docs/measurements.md, and
OUT/log.txt with what every command printed.
"""
import argparse
import concurrent.futures
import ctypes
import datetime
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import threading
import time

parser = argparse.ArgumentParser()
parser.add_argument("--source", required=True)
parser.add_argument("--build", required=True)
parser.add_argument("--out", required=True)
parser.add_argument("--nccl", default="", help="libnccl.so.2 to use; without it NCCL's checks are left out")
parser.add_argument("--seconds", type=float, default=420, help="no check is begun later than this")
parser.add_argument("--jobs", type=int, default=1, help="checks at the same time; measurements are made one by one")
parser.add_argument("--short", action="store_true", help="fewer rounds and sizes: shows that everything runs")
parser.add_argument("--stand-in", action="store_true", help="the GPU is a virtual one: no time is written down")
options = parser.parse_args()
BEGIN = time.monotonic()
LAUNCH = f"{options.build}/tests/launch"
SETTINGS = [f"SWITCHYARD_NCCL_LIBRARY={options.nccl}"] if options.nccl else []
counts = {"passed": 0, "failed": 0, "skipped": 0}
log = open(f"{options.out}/log.txt", "w", encoding="utf-8")
summary = []
lock = threading.Lock()
pool = concurrent.futures.ThreadPoolExecutor(options.jobs)
pending = []


def result(verdict, name, why=""):
    line = f"{verdict}: {name}" + (f" ({why})" if why else "")
    with lock:
        counts[verdict] += 1
        print(f"{time.monotonic() - BEGIN:4.0f} s  {line}", flush=True)
        log.write(line + "\n")
        log.flush()


def in_turn(function):
    """Calls of it are made by the pool; what is measured waits for them (settle)."""
    return lambda *words, **named: pending.append(pool.submit(function, *words, **named))


def settle():
    while pending:
        pending.pop().result()


def run(command, seconds=90, settings=None):
    """(exit status, standard output, standard error); 124 when the time ran out."""
    environment = dict(os.environ, **(settings or {}))
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=seconds, check=False, env=environment,
                              stdin=subprocess.DEVNULL)
        answer = done.returncode, done.stdout, done.stderr
    except subprocess.TimeoutExpired as over:
        answer = 124, "", f"time ran out\n{over.stdout}\n{over.stderr}\n"
    with lock:
        log.write(f"== {' '.join(command)} {settings or ''}\n{answer[1]}{answer[2]}exit status {answer[0]}\n")
    return answer


def launch(ranks, program, settings=(), way="--preload", seconds=90):
    command = [LAUNCH, "-n", str(ranks), way, "--timeout", str(seconds)]
    for setting in [*SETTINGS, *settings] if way != "--plain" else settings:
        command += ["-x", setting]
    return run([*command, "--", *program], seconds + 20)


def skipped(name, program):
    """Tells whether the check has to be left out, and says why."""
    if time.monotonic() - BEGIN >= options.seconds:
        why = "no time left"
    elif not os.path.exists(f"{options.build}/{program}"):
        why = f"{program} is not built"
    else:
        return False
    result("skipped", name, why)
    return True


def reported(ranks, program, settings, **how):
    """What launch() gives, with (call, carrier, reason) of every line of the report in place of standard output."""
    with tempfile.TemporaryDirectory() as folder:
        status, _, errors = launch(ranks, program, [f"SWITCHYARD_REPORT=json:{folder}/report", *settings], **how)
        rows = []
        if os.path.exists(f"{folder}/report"):
            with open(f"{folder}/report", encoding="utf-8") as file:
                rows = json.load(file)["calls"]
    return status, {(row["call"], row["carrier"], row["reason"]) for row in rows}, errors


@in_turn
def check(name, ranks, program, settings=(), seconds=90, over_nccl=False, way="--preload"):
    if skipped(name, program[0]):
        return
    status, routes, errors = reported(ranks, [f"{options.build}/{program[0]}", *program[1:]], settings, way=way, seconds=seconds)
    if status == 0 and over_nccl and "nccl" not in {carrier for _, carrier, _ in routes}:
        result("failed", name, "NCCL carried no call")
        return
    said = (errors.strip().splitlines() or [""])[0]
    result("passed" if status == 0 else "skipped" if status == 77 else "failed", name, "" if status == 0 else f"exit status {status}: {said}")


@in_turn
def route(name, ranks, program, settings, wanted):
    """The report says that all calls of `steps` on device memory took one route."""
    if skipped(name, "tests/mpi/steps"):
        return
    status, routes, errors = reported(ranks, [f"{options.build}/tests/mpi/steps", *program], settings)
    found = {(carrier, reason) for call, carrier, reason in routes if call == "MPI_Allreduce"}
    good = status == 0 and found == {wanted}
    result("passed" if good else "failed", name, "" if good else f"exit status {status}, routes {sorted(found)}, not {wanted}: {errors[-300:]}")


def nccl_version():
    if not options.nccl:
        return 0
    version = ctypes.c_int()
    ctypes.CDLL(options.nccl).ncclGetVersion(ctypes.byref(version))
    return version.value


NCCL = nccl_version()
# From 2.30 on NCCL takes several ranks on one GPU where it is told so; the virtual one does at any version.
SEVERAL = ["NCCL_MULTI_RANK_GPU_ENABLE=1"] if NCCL >= 23000 or (NCCL and options.stand_in) else None
few = (lambda rounds: str(max(10, rounds // 10))) if options.short else str


def command_line():
    status, out, errors = run([f"{options.build}/switchyard", "info"], 60)
    good = status == 0 and "GPU" in out + errors and "not usable, derived types" not in out  # kernels that the driver refuses
    result("passed" if good else "failed", "switchyard info", "" if good else f"exit status {status}")
    return out


def memory_and_wrappers():
    for ranks, part in ((3, "send_receive"), (2, "collective"), (3, "collective"), (3, "intercommunicator"), (3, "neighborhood"), (1, "pack"),
                        (2, "file"), (2, "refused"), (2, "unread")):
        check(f"no device pointer reaches MPI: {part}, {ranks} ranks", ranks, ["tests/wrappers/sweep", part])


def collectives():
    for ranks, rounds in ((1, 60), (2, 150), (4, 150)):
        check(f"collectives at random, {ranks} ranks on one GPU", ranks, ["tests/mpi/collectives", "--rounds", few(rounds)])
        check(f"every blocking call at random, {ranks} ranks on one GPU", ranks, ["tests/mpi/staged/differential", few(rounds)])
        if SEVERAL and ranks > 1:
            check(f"collectives at random, {ranks} ranks on one GPU, over NCCL", ranks,
                  ["tests/mpi/collectives", "--rounds", few(rounds), "--all-device"], SEVERAL, 150, over_nccl=True)
    for ranks in (2, 4):
        check(f"calls that do not match, {ranks} ranks", ranks, ["tests/mpi/mismatch"])


def hardware():
    """What GPUs and NCCL do that easy-going ones would not (docs/unproven.md), with several ranks on one GPU."""
    share = SEVERAL or (["NCCL_MULTI_RANK_GPU_ENABLE=0"] if NCCL else [])
    pairs = ["SWITCHYARD_PEER_POOL=0", "SWITCHYARD_P2P_COMM=pair", "SWITCHYARD_P2P_THRESHOLD=4K"]
    check("copies that return before they are over", 2, ["tests/mpi/hardware/memops"], share)
    check("copies of ranks that are late", 2, ["tests/mpi/hardware/memops", "late"], share)
    check("buffers that are not aligned, 2 ranks", 2, ["tests/mpi/hardware/unaligned"], share)
    alone = ["NCCL_MULTI_RANK_GPU_ENABLE=0"]
    check("messages through mapped memory, 2 ranks", 2, ["tests/mpi/p2p/mapped", few(20)], alone)
    check("messages through mapped memory, 4 ranks", 4, ["tests/mpi/p2p/mapped", few(20)], alone)
    check("messages through one mapped block, 4 ranks", 4, ["tests/mpi/p2p/mapped", few(20)], [*alone, "SWITCHYARD_PEER_POOL=8M"])
    check("halos of columns, 2 ranks", 2, ["tests/mpi/hardware/halo", few(40)], share)
    check("halos of columns, 3 ranks, by pairs", 3, ["tests/mpi/hardware/halo", few(40)], [*share, *pairs])
    for queues in (8, 1):
        check(f"more operations than room, 3 ranks, {queues} hardware queues", 3, ["tests/mpi/hardware/crowded", few(20), "--collective", "--synchronize"],
              [*share, *pairs, "SWITCHYARD_P2P_PAIR_COMMS=64", f"CUDA_DEVICE_MAX_CONNECTIONS={queues}"], 120)
    check("calls beside a stream that waits", 2, ["tests/mpi/hardware/overlap"], [*share, "CUDA_DEVICE_MAX_CONNECTIONS=32"])
    check("collectives in other orders, 3 ranks", 3, ["tests/mpi/orders", few(20)], share, 120)
    check("threads with communicators of their own, 2 ranks", 2, ["tests/mpi/threads", "2", few(20)], share, 120)
    check("communicators at random, 4 ranks", 4, ["tests/mpi/comm/random", few(40)], share, 120)
    check("windows at random, 2 ranks", 2, ["tests/mpi/window/differential", few(60), "anywhere"], share)
    check("windows that the ranks map, 3 ranks", 3, ["tests/mpi/window/direct"], share)
    check("windows that the ranks map at random, 2 ranks", 2, ["tests/mpi/window/differential", few(60), "device"], share)
    check("persistent calls at random, 2 ranks", 2, ["tests/mpi/persistent/random", few(40)], share)
    if SEVERAL:
        check("calls on a stream at random, 2 ranks", 2, ["tests/mpi/stream/random", few(20)], SEVERAL, way="--relinked")
        check("calls on a stream that wait for nothing, 2 ranks", 2, ["tests/mpi/stream/no_wait"], SEVERAL, way="--relinked")
        check("mistakes on a stream, 2 ranks", 2, ["tests/mpi/stream/mistakes"], SEVERAL, way="--relinked")
        check("communication in graphs, 2 ranks", 2, ["tests/mpi/stream/captured"], SEVERAL, way="--relinked")
        check("calls beside a capture, 2 ranks", 2, ["tests/mpi/stream/beside_capture"], SEVERAL, way="--relinked")


def kernels():
    """The library's own kernels: right on this GPU, with every type and operator, alone and between NCCL's exchanges."""
    check("MPI_Reduce_local by kernels", 1, ["tests/mpi/types/reduce_local"], way="--relinked")
    if SEVERAL:
        check("every type with every operator, 2 ranks on one GPU, over NCCL", 2, ["tests/mpi/types/table"],
              [*SEVERAL, "SWITCHYARD_NCCL_THRESHOLD=1"], 150, over_nccl=True)
        check("sums in the order of the ranks, 4 ranks on one GPU", 4, ["tests/mpi/deterministic"], [*SEVERAL, "SWITCHYARD_DETERMINISTIC=1"],
              over_nccl=True)


def kernel_speeds():
    rows = measured("measured: kernels", 1, ["tests/gpu/kernels", *(["--largest", "1048576"] if options.short else [])])
    if rows:
        packs = [row for row in rows if not row[0].startswith("reduce")]
        table("Packing blocks, one in every two: GB/s of packed bytes, and the kernel's speed as a ratio to the others'.",
              ["block, bytes", "kernel", "cuMemcpy2DAsync", "plain copy", "kernel / 2D", "kernel / plain", "kernel to pinned", "2D to pinned"],
              [[*row[:4], ratio(row[1], row[2]), ratio(row[1], row[3]), *row[4:]] for row in packs])
        table("Sums of two arrays: GB/s of one of them, beside a copy of it.", ["type", "kernel", "copy", "ratio"],
              [[row[0].removeprefix("reduce-"), *row[1:], ratio(row[1], row[2])] for row in rows if row[0].startswith("reduce")])


def routes():
    route("route of one rank", 1, [], [], ("staged", "one-rank"))
    route("route of small calls", 2, ["--count", "100", "--share"], [], ("staged", "small"))
    route("route without NCCL", 2, ["--share"], ["SWITCHYARD_NCCL=0"], ("staged", "nccl-off"))
    if not NCCL:
        result("skipped", "routes with NCCL", "no libnccl.so.2")
        return
    # A machine-wide setting would change what NCCL does with two ranks on a GPU.
    route("route of two ranks on one GPU", 2, ["--share"], ["NCCL_MULTI_RANK_GPU_ENABLE=0"], ("staged", "duplicate-gpu"))
    if not SEVERAL:
        result("skipped", "NCCL with two ranks on one GPU", f"NCCL {NCCL} is older than 2.30")
        return
    for ranks in (2, 4):
        route(f"route of {ranks} ranks on one GPU where NCCL may", ranks, ["--share"], SEVERAL, ("nccl", "none"))
    route("a program that forgets MPI_Comm_free", 2, ["--share", "--forget"], SEVERAL, ("nccl", "none"))


def point_to_point():
    """Two ranks share the GPU: over NCCL where it takes them, else staged, and the report must say which."""
    share = ["NCCL_MULTI_RANK_GPU_ENABLE=0"] if NCCL else []
    ways = [("through mapped memory", share, False), ("staged", [*share, "SWITCHYARD_PEER_POOL=0"], False)]
    if SEVERAL:
        ways.append(("over NCCL", [*SEVERAL, "SWITCHYARD_PEER_POOL=0", "SWITCHYARD_P2P_COMM=pair"], True))
    for words, settings, over_nccl in ways:
        largest = 16 << 20 if options.short or not over_nccl else 256 << 20  # a communicator of the two ranks takes its time to come
        check(f"messages of all sizes, 2 ranks on one GPU, {words}", 2, ["tests/gpu/messages", "--largest", str(largest)], settings, over_nccl=over_nccl)
        check(f"messages while completion calls wait, 2 ranks on one GPU, {words}", 2, ["tests/mpi/p2p/progress", "Wait"], settings)
        check(f"receives into the columns of one matrix, {words}", 2, ["tests/mpi/p2p/columns"], settings)
        check(f"receives into one buffer, {words}", 2, ["tests/mpi/p2p/one_buffer"], settings)
    for ranks in (2, 3):
        check(f"messages at random, {ranks} ranks on one GPU", ranks, ["tests/mpi/p2p/differential", few(100)], share, 150)
        if SEVERAL:
            check(f"messages at random, {ranks} ranks on one GPU, over NCCL", ranks, ["tests/mpi/p2p/differential", few(100)],
                  [*SEVERAL, "SWITCHYARD_PEER_POOL=0"], 150)


def examples():
    check("halos in C", 2, ["examples/halo"])
    check("training in C", 2, ["examples/train_iris", f"{options.source}/examples/iris.csv"])
    check("halos in Fortran", 2, ["examples/heat"])
    for python in (sys.executable, "/usr/bin/python3"):  # by its path: mpirun puts its own folder first
        if run([python, "-c", "import mpi4py, numpy"])[0] == 0:
            status, _, errors = launch(2, [python, f"{options.source}/examples/least_squares.py"])
            result("passed" if status == 0 else "failed", "least squares in Python", "" if status == 0 else errors[-300:])
            return
    result("skipped", "least squares in Python", "no Python with mpi4py and numpy")


def table(title, header, rows):
    summary.extend(["", title, "", "| " + " | ".join(header) + " |", "|" + " --- |" * len(header)])
    summary.extend("| " + " | ".join(row) + " |" for row in rows)


def measured(name, ranks, program, settings=(), seconds=120):
    """The words of each line that a measuring program printed, or None."""
    settle()
    if skipped(name, program[0]):
        return None
    status, out, errors = launch(ranks, [f"{options.build}/{program[0]}", *program[1:]], settings, seconds=seconds)
    rows = [line.split() for line in out.splitlines() if re.match(r"\d+ |(no-)?context |reduce-|call |communicator ", line)]
    good = status == 0 and rows
    result("passed" if good else "failed", name, "" if good else f"exit status {status}: {errors[-300:]}")
    return rows if good else None


def size(number):
    number = int(number)
    for unit, name in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if number >= unit:
            return f"{number // unit} {name}"
    return f"{number} B"


def ratio(one, other):
    return "-" if other == "-" else f"{float(one) / float(other):.2f}"


def locations():
    rows = measured("measured: where a buffer lives", 1, ["tests/gpu/locations"])
    if rows:
        table("Where does a buffer live? Nanoseconds a question, beside the driver's own.",
              ["state", "memory", "library, ns", "driver, ns", "ratio"], [[*row, ratio(row[2], row[3])] for row in rows])


def driver_calls():
    rows = measured("measured: calls of the driver", 1, ["tests/gpu/driver_calls"])
    if rows:
        table("The driver's calls of which a small message is made, nanoseconds each.", ["call", "ns"], [row[1:] for row in rows])


def answers(program, what):
    """The driver answers as the one whose answers tests/gpu/answers has, and as the virtual GPUs do."""
    settle()
    if skipped(what, f"tests/gpu/{program}"):
        return
    status, out, errors = run([f"{options.build}/tests/gpu/{program}"])
    with open(f"{options.source}/tests/gpu/answers/{program}", encoding="utf-8") as file:
        known = file.read().splitlines()
    others = [line for line in out.splitlines() if line not in known]
    good = status == 0 and out.splitlines() == known
    result("passed" if good else "failed", what, "" if good else f"exit status {status}, other answers: {'; '.join(others)} {errors[-300:]}")


def communicators():
    for connect in (0, 1) if SEVERAL else ():
        rows = measured(f"measured: communicators, NCCL_RUNTIME_CONNECT={connect}", 2, ["tests/gpu/communicators", "4"],
                        [*SEVERAL, f"NCCL_RUNTIME_CONNECT={connect}"])
        if rows:
            table(f"Communicators of 2 ranks on one GPU, NCCL_RUNTIME_CONNECT={connect}: the first allreduce of 4 MiB, and the device memory that both ranks take.",
                  ["communicator", "ms", "MiB"], [row[1:] for row in rows])


def allreduces():
    largest = ["--largest", "1048576"] if options.short else []
    cases = [("staging alone, 1 rank", 1, [], []), ("staged, 2 ranks on one GPU", 2, ["SWITCHYARD_NCCL=0"], [])]
    if SEVERAL:
        cases.append(("over NCCL, 2 ranks on one GPU", 2, SEVERAL, ["--nccl", options.nccl]))
        cases.append(("staged at all sizes, beside NCCL, 2 ranks on one GPU", 2, [*SEVERAL, "SWITCHYARD_NCCL=0"], ["--nccl", options.nccl]))
    for words, ranks, settings, arguments in cases:
        rows = measured(f"measured: allreduce, {words}", ranks, ["tests/gpu/allreduce", *arguments, *largest], settings)
        if rows:
            table(f"MPI_Allreduce of floats on device memory: {words}. Microseconds, and the library's time as a ratio to the others'.",
                  ["bytes", "library, us", "by hand, us", "NCCL, us", "library / by hand", "library / NCCL"],
                  [[size(row[0]), *row[1:], ratio(row[1], row[2]), ratio(row[1], row[3])] for row in rows])


def ping_pongs():
    largest = ["--largest", "1048576"] if options.short else []
    cases = [("staged, 2 ranks on one GPU", ["SWITCHYARD_NCCL=0"], []),
             ("through mapped memory, 2 ranks on one GPU", ["NCCL_MULTI_RANK_GPU_ENABLE=0"] if NCCL else [], [])]
    if SEVERAL:
        cases.append(("over NCCL, 2 ranks on one GPU", [*SEVERAL, "SWITCHYARD_PEER_POOL=0", "SWITCHYARD_P2P_COMM=pair"], ["--nccl", options.nccl]))
    for words, settings, arguments in cases:
        rows = measured(f"measured: ping-pong, {words}", 2, ["tests/gpu/messages", *arguments, *largest], settings)
        if rows:
            table(f"MPI_Send and MPI_Recv of device memory: {words}. Microseconds one way, and the library's time as a ratio to the others'.",
                  ["bytes", "library, us", "by hand, us", "NCCL, us", "library / by hand", "library / NCCL"],
                  [[size(row[0]), *row[1:], ratio(row[1], row[2]), ratio(row[1], row[3])] for row in rows])


def agreement():
    """MPI_Allreduce of host memory in a GPU job: from the threshold up the library's ranks agree first."""
    rows, name = [], "measured: agreement of host calls"
    settle()
    if skipped(name, "tests/bench/host_calls"):
        return
    for number in (64 << 10, 1 << 20) if options.short else (8, 64 << 10, 256 << 10, 1 << 20, 4 << 20):
        status, out, errors = launch(2, [f"{options.build}/tests/bench/host_calls", "compare", "allreduce", str(number)], ["HOST_CALLS_USE_GPU=1"])
        if status != 0:
            result("failed", name, errors[-300:])
            return
        through, noise, own = out.split()
        rows.append([size(number), own, through, noise])
    result("passed", name)
    table("MPI_Allreduce of doubles on host memory, 2 ranks that have a CUDA context: with the library and without, in turns.",
          ["bytes", "without, us", "with / without", "without / without"], rows)


def first_line(command):
    status, out, _ = run(command)
    return out.splitlines()[0].strip() if status == 0 and out.strip() else "unknown"


def machine(info):
    gpu = re.search(r"^.*(?:GPU 0|device 0|0:).*$", info, re.M)
    said = [f"date {datetime.date.today()}", f"{os.cpu_count()} CPU cores, {platform.machine()}", first_line(["g++", "--version"])]
    with open(f"{options.build}/Makefile", encoding="utf-8") as makefile:
        said.append("Open MPI " + re.search(r"^MPI_VENDOR_VERSION = (.*)$", makefile.read(), re.M).group(1))
    said.append(f"NCCL {NCCL // 10000}.{NCCL // 100 % 100}.{NCCL % 100}" if NCCL else "no NCCL")
    said.append(os.environ.get("SWY_GPU_NAME", "") or (gpu.group(0).strip() if gpu else "GPU unknown"))
    return "; ".join(said)


information = command_line()
memory_and_wrappers()
collectives()
routes()
point_to_point()
kernels()
examples()
settle()
locations()
driver_calls()
if not options.stand_in:  # answers.test asks a virtual one
    answers("waits", "which of the driver's calls wait for what runs")
    answers("captures", "which of the driver's calls a capture forbids")
kernel_speeds()
communicators()
allreduces()
ping_pongs()
agreement()
hardware()
settle()
last = f"{counts['passed']} passed, {counts['failed']} failed" + (f", {counts['skipped']} skipped" if counts["skipped"] else "")
with open(f"{options.out}/summary.md", "w", encoding="utf-8") as file:
    if options.stand_in:
        file.write(f"A virtual GPU stood in: these times say nothing.\n\n{machine(information)}\n\n{last}\n")
    else:
        file.write(f"{machine(information)}\n" + "\n".join(summary) + f"\n\n{last}\n")
print(f"summary: {options.out}/summary.md")
print(last)
sys.exit(0 if counts["failed"] == 0 and counts["passed"] > 0 else 1)
