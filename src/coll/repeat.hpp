// The last call of which this rank only published a record (tell_host()). Programs make the same call again and again,
// and the record that was worked out of its arguments then still holds.
#pragma once

#include <mpi.h>

#include <array>
#include <cstddef>

#include "call/call.hpp"
#include "coll/vote_record.hpp"
#include "comm/shared_page.hpp"

namespace swy::coll {

struct Repeat {
    struct Buffer {
        MPI_Count count;
        MPI_Datatype type;
        Shape shape;
        bool in_place;
    };

    // Only for predefined types: the handle of another type may belong to a new type the next time. An operator of the
    // program's is not told from its others in the record, so its handle may be used again.
    static bool possible(const Call& call);
    Repeat(const Call& call, const Vote& vote);

    bool is(const Call& call) const;
    const comm::SharedPage::Record& record() const { return record_; }  // the record, as from host_record()

  private:
    CallId id_;
    int root_;
    MPI_Op op_;
    std::size_t buffers_;
    std::array<Buffer, 2> buffer_{};
    comm::SharedPage::Record record_;
};

}  // namespace swy::coll
