// Large reading and writing of a file, as several real calls one after the other: while MPI reads or writes one piece,
// the next one is copied from the device, or the last one to it, and the host memory is that of three pieces. Used by
// run.cpp. Of a collective access all ranks make the same number of real calls: those of a rank with fewer pieces move
// nothing in the end.
#pragma once

#include <mpi.h>

#include <optional>

#include "call/call.hpp"

namespace swy::staging {

struct Pieces {
    MPI_Count elements;  // of the call's type, in each piece but the last one
    MPI_Offset offsets;  // what a piece is long in the file's view, in its elementary types
};

// Returns how the call is divided; nothing where it is made as a whole: it is small or not of this kind, the file is in
// atomic mode, in which no other process may see a part of it (MPI 4.0 section 14.6.1), or another thread may move the
// file's pointer in between.
std::optional<Pieces> pieces_of(const Call& call);

// Makes the call, as run() does, by as many real calls as it has pieces, or by `rounds` where those are more. The
// status has what all pieces have moved.
int run_in_pieces(const Call& call, Real real, const Pieces& pieces, MPI_Count rounds = 0);

}  // namespace swy::staging
