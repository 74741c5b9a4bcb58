"""Runs a program of this folder under tests/launch and reads its report."""
import json
import os
import subprocess
import tempfile

BUILD = os.environ["SWY_BUILDDIR"]


def run(program, ranks, gpus, arguments=(), settings=(), timeout=120):
    """Returns (finished process, report or None)."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "report.json")
        command = [f"{BUILD}/tests/launch", "-n", str(ranks), "--gpus", str(gpus), "--timeout", str(timeout)]
        for setting in [f"SWITCHYARD_REPORT=json:{path}", *settings]:
            command += ["-x", setting]
        done = subprocess.run([*command, "--", f"{BUILD}/tests/mpi/comm/{program}", *arguments], capture_output=True, text=True, check=False)
        if not os.path.exists(path):
            return done, None
        with open(path, encoding="utf-8") as file:
            return done, json.load(file)


def calls(report, call, carrier):
    return sum(row["count"] for row in report["calls"] if row["call"] == call and row["carrier"] == carrier)

