// The library's own entry points, by names that no other library of the program can take: code of src/ext/message that
// is built on top of the MPI that this library provides calls these.
#pragma once

#include <mpi.h>

#define SWY_OWN_WRAPPER(name) __attribute__((visibility("hidden"))) extern decltype(name) swy_##name;
extern "C" {
SWY_OWN_WRAPPER(MPI_Bcast)
SWY_OWN_WRAPPER(MPI_Improbe)
SWY_OWN_WRAPPER(MPI_Isend)
SWY_OWN_WRAPPER(MPI_Mrecv)
SWY_OWN_WRAPPER(MPI_Pack)
SWY_OWN_WRAPPER(MPI_Unpack)
SWY_OWN_WRAPPER(MPI_Wait)
}
#undef SWY_OWN_WRAPPER
