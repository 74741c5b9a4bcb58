"""An mpi4py program's calls arrive, on host and on device memory: exchange_python.py host|device"""

import array
import ctypes
import os
import sys

from mpi4py import MPI


class Device:
    """The CUDA runtime, as far as arrays need it."""

    def __init__(self):
        self.runtime = ctypes.CDLL("libcudart.so.13")
        devices = ctypes.c_int()
        self.call("cudaGetDeviceCount", ctypes.byref(devices))
        self.call("cudaSetDevice", int(os.environ["OMPI_COMM_WORLD_LOCAL_RANK"]) % devices.value)

    def call(self, name, *arguments):
        result = getattr(self.runtime, name)(*arguments)
        if result != 0:
            sys.exit(f"{name} failed with CUDA error {result}")


class DeviceArray:
    """Integers on the device; mpi4py finds them by their __cuda_array_interface__."""

    def __init__(self, device, values):
        self.device, self.count = device, len(values)
        self.memory = ctypes.c_void_p()
        device.call("cudaMalloc", ctypes.byref(self.memory), ctypes.c_size_t(4 * self.count))
        self.copy(self.memory, values.buffer_info()[0])
        self.__cuda_array_interface__ = {"shape": (self.count,), "typestr": "<i4", "data": (self.memory.value, False),
                                         "version": 3}

    def copy(self, to, source):
        self.device.call("cudaMemcpy", ctypes.c_void_p(getattr(to, "value", to)),
                         ctypes.c_void_p(getattr(source, "value", source)), ctypes.c_size_t(4 * self.count), 4)

    def values(self):
        found = array.array("i", [0] * self.count)
        self.copy(found.buffer_info()[0], self.memory)
        return list(found)


class HostArray(array.array):
    def values(self):
        return list(self)


def main():
    comm = MPI.COMM_WORLD
    rank, size = comm.rank, comm.size
    device = Device() if sys.argv[1] == "device" else None
    count = 20000

    def make(values):
        return DeviceArray(device, array.array("i", values)) if device else HostArray("i", values)

    def expect(what, found, expected):
        if found.values() != list(expected):
            print(f"{what} is wrong on rank {rank}", file=sys.stderr)
            comm.Abort(1)

    def ramp(r):
        return range(1000 * r, 1000 * r + count)

    out, into = make(ramp(rank)), make([0] * count)
    if rank == 0:
        comm.Send(out, (rank + 1) % size)
    comm.Recv(into, (rank - 1) % size)
    if rank != 0:
        comm.Send(out, (rank + 1) % size)
    expect("Recv", into, ramp((rank - 1) % size))

    into = make([0] * count)
    requests = [comm.Irecv(into, source=MPI.ANY_SOURCE, tag=4), comm.Isend(out, (rank + 1) % size, tag=4)]
    statuses = [MPI.Status(), MPI.Status()]
    MPI.Request.Waitall(requests, statuses)
    expect("Irecv", into, ramp((rank - 1) % size))
    if (statuses[0].source, statuses[0].tag, statuses[0].Get_count(MPI.INT)) != ((rank - 1) % size, 4, count):
        print(f"the status of Irecv is wrong on rank {rank}", file=sys.stderr)
        comm.Abort(1)
    persistent = [comm.Recv_init(into, (rank - 1) % size, 5), comm.Send_init(make(ramp(rank + 1)), (rank + 1) % size, 5)]
    MPI.Prequest.Startall(persistent)
    while not MPI.Request.Testall(persistent):
        pass
    expect("Recv_init", into, ramp((rank - 1) % size + 1))
    for request in persistent:
        request.Free()

    buffer = make(ramp(rank))
    comm.Bcast(buffer, 0)
    expect("Bcast", buffer, ramp(0))

    total = make([0] * count)
    comm.Allreduce(make(ramp(rank)), total)
    expect("Allreduce", total, [size * i + 500 * size * (size - 1) for i in range(count)])

    counts = [r + 1 for r in range(size)]
    displs = [sum(counts[:r]) for r in range(size)]
    parts = make([-1] * sum(counts))
    comm.Gatherv(make(ramp(rank)[:rank + 1]), [parts, counts, displs, MPI.INT], 0)
    gathered = [i for r in range(size) for i in ramp(r)[:r + 1]]
    expect("Gatherv", parts, gathered if rank == 0 else [-1] * sum(counts))


main()
