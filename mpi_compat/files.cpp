// The wrappers of MPI_File_open and MPI_File_close: in a job with GPUs a file has a communicator of its ranks', and
// host memory of a split collective that has not been ended is kept by the handle.
#include <mpi.h>

#include "call/job.hpp"
#include "mpi_compat/wrapper.hpp"
#include "staging/file_ranks.hpp"

using namespace swy;

extern "C" SWY_EXPORT int MPI_File_open(MPI_Comm comm, const char* filename, int amode, MPI_Info info, MPI_File* fh) {
    return call::job_agrees && fh != nullptr ? staging::open_file(comm, filename, amode, info, fh)
                                             : real::File_open(comm, filename, amode, info, fh);
}
SWY_PAIR(MPI_File_open)

extern "C" SWY_EXPORT int MPI_File_close(MPI_File* fh) {
    return driver_watch::closed() || fh == nullptr ? real::File_close(fh) : staging::close_file(fh);
}
SWY_PAIR(MPI_File_close)
