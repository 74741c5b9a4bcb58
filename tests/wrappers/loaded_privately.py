"""A host program that loads the library with local symbols still reaches MPI: loaded_privately.py LIBSWITCHYARD"""

import ctypes
import sys

library = ctypes.CDLL(sys.argv[1], mode=ctypes.RTLD_LOCAL)
rank = ctypes.c_int(-1)
assert library.MPI_Init(None, None) == 0
world = ctypes.c_void_p(ctypes.addressof(ctypes.c_char.in_dll(ctypes.CDLL("libmpi.so.40"), "ompi_mpi_comm_world")))
integer = ctypes.c_void_p(ctypes.addressof(ctypes.c_char.in_dll(ctypes.CDLL("libmpi.so.40"), "ompi_mpi_int")))
value = ctypes.c_int(41)
assert library.MPI_Bcast(ctypes.byref(value), 1, integer, 0, world) == 0
assert value.value == 41
assert library.MPI_Finalize() == 0
