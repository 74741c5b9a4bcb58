/* Switchyard's extensions to MPI. A program that calls them links with libswitchyard (swycc, or pkg-config switchyard);
 * a program that only uses MPI needs neither this header nor a new link: everything else that Switchyard does is MPI
 * itself. */
#ifndef MPIX_SWITCHYARD_H
#define MPIX_SWITCHYARD_H

#include <mpi.h>

/* The version of this header; MPIX_Switchyard_version gives that of the library in use. */
#define MPIX_SWITCHYARD_VERSION_MAJOR 0
#define MPIX_SWITCHYARD_VERSION_MINOR 1
#define MPIX_SWITCHYARD_VERSION_PATCH 0
#define MPIX_SWITCHYARD_VERSION \
    (MPIX_SWITCHYARD_VERSION_MAJOR * 10000 + MPIX_SWITCHYARD_VERSION_MINOR * 100 + MPIX_SWITCHYARD_VERSION_PATCH)

#ifdef __cplusplus
extern "C" {
#endif

/* The version of the Switchyard that this process has loaded. May be called at any time, before MPI_Init and after
 * MPI_Finalize too. Returns MPI_SUCCESS, or MPI_ERR_ARG for a null pointer. A program that wants to know whether
 * Switchyard is there at all, without linking with it, asks dlsym(RTLD_DEFAULT, "MPIX_Switchyard_version"). */
int MPIX_Switchyard_version(int* major, int* minor, int* patch);

/* Whether MPI calls take device pointers: 1 with Switchyard, when it is in force and the process has a CUDA driver;
 * what the MPI beneath says otherwise. To be asked after MPI_Init. Open MPI declares the same function in <mpi-ext.h>.
 */
int MPIX_Query_cuda_support(void);

#ifdef __cplusplus
}
#endif

#endif
