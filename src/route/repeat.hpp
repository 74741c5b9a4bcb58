// The last call of which this rank only told the others (tell_host): programs make the same one again and again, and
// what was worked out of its arguments then still holds.
#pragma once

#include <mpi.h>

#include <array>
#include <cstddef>

#include "comm/board.hpp"
#include "route/agreement.hpp"
#include "route/call.hpp"

namespace swy::route {

struct Repeat {
    struct Buffer {
        MPI_Count count;
        MPI_Datatype type;
        Shape shape;
        bool in_place;
    };

    // Of predefined types alone: a handle of another may be a new type's the next time. An operator of the program's
    // counts as such, whichever it is.
    static bool possible(const Call& call);
    Repeat(const Call& call, const Vote& vote);

    bool is(const Call& call) const;
    const comm::Board::Words& words() const { return words_; }  // as host_words()

  private:
    CallId id_;
    int root_;
    MPI_Op op_;
    std::size_t buffers_;
    std::array<Buffer, 2> buffer_{};
    comm::Board::Words words_;
};

}  // namespace swy::route
