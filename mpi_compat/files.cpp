// The wrapper of MPI_File_close: host memory of a split collective that has not been ended is kept by the handle.
#include <mpi.h>

#include "mpi_compat/wrapper.hpp"
#include "staging/split.hpp"

using namespace swy;

extern "C" SWY_EXPORT int MPI_File_close(MPI_File* fh) {
    const int ended = driver_watch::closed() || fh == nullptr ? MPI_SUCCESS : staging::end_split_of(*fh);
    const int code = real::File_close(fh);
    return code == MPI_SUCCESS ? ended : code;
}
SWY_PAIR(MPI_File_close)
