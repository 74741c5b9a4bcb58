// The library's own entry points, by names that no other library of the program can take: what is built on top of MPI
// as this library gives it calls these. For src/message.
#pragma once

#include <mpi.h>

#define SWY_OWN_DOOR(name) __attribute__((visibility("hidden"))) extern decltype(name) swy_##name;
extern "C" {
SWY_OWN_DOOR(MPI_Bcast)
SWY_OWN_DOOR(MPI_Improbe)
SWY_OWN_DOOR(MPI_Isend)
SWY_OWN_DOOR(MPI_Mrecv)
SWY_OWN_DOOR(MPI_Pack)
SWY_OWN_DOOR(MPI_Unpack)
SWY_OWN_DOOR(MPI_Wait)
}
#undef SWY_OWN_DOOR
