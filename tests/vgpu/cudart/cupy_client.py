"""CuPy's arrays, kernels and reductions against numpy, and their sum over the ranks of MPI. cupy.test runs it."""

import cupy
import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
cupy.cuda.Device(comm.rank % cupy.cuda.runtime.getDeviceCount()).use()
host = np.random.default_rng(comm.rank).random((200, 300))
x = cupy.asarray(host)

assert cupy.allclose(cupy.sin(x) ** 2 + cupy.cos(x) ** 2, 1)
assert float(x.max()) == host.max()
assert np.allclose(x.sum(axis=0).get(), host.sum(axis=0))

fused = cupy.ElementwiseKernel("float64 a, float64 b", "float64 c", "c = a * b + 1", "multiply_and_add_one")(x, x)
assert np.allclose(fused.get(), host * host + 1)

twice = cupy.RawKernel(
    r"""extern "C" __global__ void twice(double* p, int n) {
        const int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < n)
            p[i] *= 2;
    }""",
    "twice",
)
doubled = x.copy()
twice(((doubled.size + 255) // 256,), (256,), (doubled, np.int32(doubled.size)))
cupy.cuda.get_current_stream().synchronize()
assert np.allclose(doubled.get(), 2 * host)

total = cupy.empty_like(doubled)
comm.Allreduce(doubled, total)
expected = sum(2 * np.random.default_rng(rank).random((200, 300)) for rank in range(comm.size))
assert np.allclose(total.get(), expected)
print(f"rank {comm.rank}: CuPy is right", flush=True)
