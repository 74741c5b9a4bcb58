// The ranks that have a file open together, in a job with GPUs: of a collective access all of them make the same number
// of real calls (in_pieces.hpp), on which they agree over a private communicator of the file's.
#pragma once

#include <mpi.h>

namespace swy::staging {

// Make the real MPI_File_open and MPI_File_close, and the file's communicator. Return MPI's code.
int open_file(MPI_Comm comm, const char* filename, int amode, MPI_Info info, MPI_File* file);
int close_file(MPI_File* file);

// Returns the greatest of the ranks' numbers; collective over the file. Returns 1 where its ranks cannot agree: they
// are of several jobs.
long long greatest_of_ranks(MPI_File file, long long number);

}  // namespace swy::staging
