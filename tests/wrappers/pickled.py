"""A message that has come before its receive is there when the receive returns: mpi4py.util.pkl5, and mpi4py's own tests, test such a receive
once. Objects of one to three parts, to this process itself."""
import sys

from mpi4py import MPI
from mpi4py.util import pkl5

comm = pkl5.Intracomm(MPI.COMM_SELF).Dup()
late = []
for number, sent in enumerate([None, 7, "switchyard", bytearray(b"x" * 3), [bytearray(1), bytearray(70000)]] * 8):
    sending = comm.issend(sent, 0, 123)
    receiving = comm.mprobe(MPI.ANY_SOURCE, MPI.ANY_TAG).irecv()
    there, received = receiving.test()
    if not there:
        late.append(number)
        received = receiving.wait()
    assert received == sent, f"object {number}: {received!r}"
    sending.wait()
comm.Free()
if late:
    sys.exit(f"objects {late} were there and not received by the first test")
