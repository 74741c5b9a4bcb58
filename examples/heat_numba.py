#!/usr/bin/env python3
"""Heat flow in a plate, with kernels of the program's own written in Python: Numba compiles them, mpi4py sends their memory.

Each rank has a strip of the plate in device memory, with a row of each neighbour's above and below it. In each step it gives its
neighbours its outer rows, and a kernel works out the next temperatures; every so often the ranks add up, on the devices, how much
has changed. The strips are gathered from device memory in the end, and rank 0 does the same steps with numpy on the whole plate.

    switchyard run -n 4 -- python3 heat_numba.py                       on real GPUs
    switchyard run --virtual-gpus 4 -n 4 -- python3 heat_numba.py      without any

Needs mpi4py, numpy and numba-cuda (`pip install mpi4py "numba-cuda[cu13]"`), and a GPU, be it a virtual one. Exit status 0: the
two results are the same.
"""

import sys
import warnings

import numpy as np
from mpi4py import MPI
from numba import cuda

warnings.filterwarnings("ignore", "Grid size")  # the plate is too small for a whole GPU

COLUMNS = 256
ROWS = 48  # of each rank
STEPS = 40
CHECKED = 10  # steps between two sums of what has changed


@cuda.jit
def step(old, new, changes, first, last):
    """The next temperatures of the strip; `changes` gets the sum of the squares of what has changed."""
    partial = cuda.shared.array(256, np.float64)
    row, column = cuda.blockIdx.x + 1, cuda.threadIdx.x
    change = 0.0
    at_edge = (first and row == 1) or (last and row == old.shape[0] - 2) or column in (0, COLUMNS - 1)
    if not at_edge:
        new[row, column] = 0.25 * (old[row - 1, column] + old[row + 1, column] + old[row, column - 1] + old[row, column + 1])
        change = new[row, column] - old[row, column]
    else:
        new[row, column] = old[row, column]
    partial[column] = change * change
    cuda.syncthreads()
    half = 128
    while half > 0:
        if column < half:
            partial[column] += partial[column + half]
        cuda.syncthreads()
        half //= 2
    if column == 0:
        cuda.atomic.add(changes, 0, partial[0])


def plate(rows):
    """The temperatures at the start: cold but for one edge and a spot."""
    start = np.zeros((rows, COLUMNS))
    start[:, 0] = 100.0
    start[rows // 3, COLUMNS // 2] = 500.0
    return start


def in_host_memory(temperatures):
    """The same steps with numpy: the temperatures at the end, and the last sum of what has changed."""
    changes = 0.0
    for _ in range(STEPS):
        new = temperatures.copy()
        new[1:-1, 1:-1] = 0.25 * (temperatures[:-2, 1:-1] + temperatures[2:, 1:-1] + temperatures[1:-1, :-2] + temperatures[1:-1, 2:])
        changes = ((new - temperatures) ** 2).sum()
        temperatures = new
    return temperatures, changes


def main():
    comm = MPI.COMM_WORLD
    if not cuda.is_available():
        print("heat_numba: no GPU (switchyard run --virtual-gpus makes some)", flush=True)
        return 1
    node = comm.Split_type(MPI.COMM_TYPE_SHARED)
    cuda.select_device(node.rank % len(cuda.gpus))
    node.Free()
    if comm.rank == 0:
        print(f"heat_numba: {comm.size} ranks, device memory", flush=True)

    up = comm.rank - 1 if comm.rank > 0 else MPI.PROC_NULL
    down = comm.rank + 1 if comm.rank < comm.size - 1 else MPI.PROC_NULL
    whole = plate(ROWS * comm.size)
    strip = np.zeros((ROWS + 2, COLUMNS))
    strip[1:-1] = whole[ROWS * comm.rank : ROWS * (comm.rank + 1)]
    old, new = cuda.to_device(strip), cuda.to_device(strip)
    changes, changed = cuda.to_device(np.zeros(1)), 0.0

    for number in range(1, STEPS + 1):
        comm.Sendrecv(old[1], up, recvbuf=old[ROWS + 1], source=down)
        comm.Sendrecv(old[ROWS], down, recvbuf=old[0], source=up)
        changes[0] = 0.0
        step[ROWS, COLUMNS](old, new, changes, comm.rank == 0, comm.rank == comm.size - 1)
        cuda.synchronize()  # MPI reads what the kernel has written
        old, new = new, old
        if number % CHECKED == 0:
            comm.Allreduce(MPI.IN_PLACE, changes, MPI.SUM)
            changed = changes[0]

    gathered = cuda.device_array((ROWS * comm.size, COLUMNS)) if comm.rank == 0 else None
    comm.Gather(old[1 : ROWS + 1], gathered, root=0)
    good = True
    if comm.rank == 0:
        expected, expected_change = in_host_memory(whole)
        error = np.abs(gathered.copy_to_host() - expected).max()
        good = bool(error < 1e-9 and abs(changed - expected_change) < 1e-6 * expected_change)
        print(f"heat_numba: temperatures within {error:.1e} of numpy's, {changed:.4f} still changing")
        print("passed" if good else "FAILED")
    return 0 if comm.bcast(good) else 1


if __name__ == "__main__":
    sys.exit(main())
