// Split collectives on files whose buffer is device memory (MPI 4.0 section 14.4.5). From MPI_File_X_begin to
// MPI_File_X_end MPI works on host memory, which is kept by the file's handle: there is one at a time on a file. What
// has been written is copied at the beginning, what has been read at the end.
#pragma once

#include "call/call.hpp"

namespace swy::staging {

constexpr bool begins_split(CallId id) {
    return name(plain(id)).ends_with("_begin");
}
constexpr bool ends_split(CallId id) {
    return name(id).ends_with("_end");
}

// Runs an MPI_File_X_begin that has a device address. A copy to the host that fails is an error of the MPI_File_X_end:
// the other ranks have begun too, so that this one takes part with no data. Throws std::bad_alloc.
int begin_split(const Call& call, Real real);

// Runs an MPI_File_X_end, on whatever memory it was begun. Another buffer than the beginning's is an error that leaves
// the operation under way.
int end_split(const Call& call, Real real);

// Called before MPI_File_close: ends what the program has not ended, so that a handle that MPI gives out again has
// none. Returns the code of an error that has been raised.
int end_split_of(MPI_File file);

}  // namespace swy::staging
