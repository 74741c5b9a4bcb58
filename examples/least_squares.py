#!/usr/bin/env python3
"""Least squares over many ranks, with device arrays handed to mpi4py by __cuda_array_interface__.

Each rank has some of the observations. Their normal equations are added up by Allreduce on device memory (128 unknowns: 128 KiB, large
enough to travel over NCCL), each rank solves them, and the predictions are gathered from device memory.

    switchyard run -n 4 -- python3 least_squares.py                       on real GPUs
    switchyard run --virtual-gpus 4 -n 4 -- python3 least_squares.py      without any

Needs mpi4py and numpy. Any array library whose arrays have __cuda_array_interface__ (CuPy, Numba, PyTorch) takes the place of the class
DeviceArray, which only uses the CUDA runtime, so that the example runs everywhere. Exit status 0: the coefficients that the observations
were made with have been found again. Without a GPU everything is in host memory and the result is the same.
"""

import ctypes
import sys

import numpy as np
from mpi4py import MPI

UNKNOWNS = 128
OBSERVATIONS = 600  # on each rank


def load_runtime():
    """The CUDA runtime, or None where there is none or no GPU."""
    for name in ("libcudart.so.13", "libcudart.so.12", "libcudart.so"):
        try:
            runtime = ctypes.CDLL(name)
        except OSError:
            continue
        count = ctypes.c_int(0)
        if runtime.cudaGetDeviceCount(ctypes.byref(count)) == 0 and count.value > 0:
            node = MPI.COMM_WORLD.Split_type(MPI.COMM_TYPE_SHARED)
            check(runtime.cudaSetDevice(ctypes.c_int(node.rank % count.value)))
            node.Free()
            return runtime
        return None
    return None


def check(status):
    if status != 0:
        raise RuntimeError(f"CUDA error {status}")


class DeviceArray:
    """An array in device memory, and just enough of it for MPI: its address, shape and type."""

    copy_default = 4  # cudaMemcpyDefault

    def __init__(self, runtime, like):
        self.runtime, self.host = runtime, np.ascontiguousarray(like)
        self.address = ctypes.c_void_p()
        check(runtime.cudaMalloc(ctypes.byref(self.address), ctypes.c_size_t(self.host.nbytes)))
        self._copy(self.address, self.host.ctypes.data_as(ctypes.c_void_p))

    def _copy(self, to, source):
        check(self.runtime.cudaMemcpy(to, source, ctypes.c_size_t(self.host.nbytes), self.copy_default))

    def numpy(self):
        """The content, copied to host memory."""
        self._copy(self.host.ctypes.data_as(ctypes.c_void_p), self.address)
        return self.host.copy()

    def free(self):
        check(self.runtime.cudaFree(self.address))

    @property
    def __cuda_array_interface__(self):
        return {
            "shape": self.host.shape,
            "typestr": self.host.dtype.str,
            "data": (self.address.value, False),
            "version": 3,
            "strides": None,
        }


class HostArray(np.ndarray):
    """What stands in for a device array where there is no GPU."""

    def numpy(self):
        return np.array(self)

    def free(self):
        pass


def main():
    comm = MPI.COMM_WORLD
    runtime = load_runtime()

    def array(like):
        return DeviceArray(runtime, like) if runtime else np.array(like).view(HostArray)

    if comm.rank == 0:
        print(f"least_squares: {comm.size} ranks, {'device memory' if runtime else 'no GPU: host memory'}", flush=True)

    true = np.sin(np.arange(UNKNOWNS))  # to be found again
    rng = np.random.default_rng(comm.rank)
    design = rng.standard_normal((OBSERVATIONS, UNKNOWNS))
    observed = design @ true

    matrix = array(design.T @ design)
    vector = array(design.T @ observed)
    comm.Allreduce(MPI.IN_PLACE, matrix, MPI.SUM)
    comm.Allreduce(MPI.IN_PLACE, vector, MPI.SUM)
    found = np.linalg.solve(matrix.numpy(), vector.numpy())

    predicted = array(design @ found)
    gathered = array(np.zeros((comm.size, OBSERVATIONS)))
    comm.Allgather(predicted, gathered)

    error = np.abs(found - true).max()
    expected = np.array([np.random.default_rng(r).standard_normal((OBSERVATIONS, UNKNOWNS)) @ true for r in range(comm.size)])
    misfit = np.abs(gathered.numpy() - expected).max()
    for used in (matrix, vector, predicted, gathered):
        used.free()
    good = comm.allreduce(bool(error < 1e-10 and misfit < 1e-9), MPI.LAND)
    if comm.rank == 0:
        print(f"least_squares: coefficients found to {error:.1e}, predictions to {misfit:.1e}")
        print("passed" if good else "FAILED")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
