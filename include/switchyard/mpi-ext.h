/* Open MPI's <mpi-ext.h> as it is with Switchyard: swycc, swycxx, swyfort and pkg-config put this folder first.
 * Open MPI's own says what Open MPI was built with; a program that is linked with Switchyard may pass device memory. */
#pragma GCC system_header
#ifndef SWITCHYARD_MPI_EXT_H
#define SWITCHYARD_MPI_EXT_H

#include <mpi.h>

#include_next <mpi-ext.h> /* needs mpi.h before it */

#undef MPIX_CUDA_AWARE_SUPPORT
#define MPIX_CUDA_AWARE_SUPPORT 1

#ifdef __cplusplus
extern "C" {
#endif
int MPIX_Query_cuda_support(void); /* an Open MPI that was built without this extension does not declare it */
#ifdef __cplusplus
}
#endif

#endif
