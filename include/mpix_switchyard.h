/* Switchyard's extensions to MPI. A program that includes this links with libswitchyard (swycc, or pkg-config switchyard).
 * Everything else that Switchyard does needs no header: it is MPI itself. */
#ifndef MPIX_SWITCHYARD_H
#define MPIX_SWITCHYARD_H

#include <mpi.h>

/* The version of this header, as major * 10000 + minor * 100 + patch. */
#define MPIX_SWITCHYARD_VERSION 100

#endif
