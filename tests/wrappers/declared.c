/* Preprocessed at build time: the prototypes that table.py compares the table of calls with. */
#define OMPI_OMIT_MPI1_COMPAT_DECLS 0 /* also what MPI has removed: it is still in the library */
#include <mpi.h>

#include <mpi-ext.h> /* needs mpi.h before it */
