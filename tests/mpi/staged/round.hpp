// One random call, made on host memory and on memory of other kinds, and the comparison. Test program only.
#pragma once

#include <mpi.h>

#include <cstdio>
#include <string>
#include <vector>

#include "buffers.hpp"
#include "views.hpp"

namespace staged_test {

// Which of the two calls is being made.
inline Side current_side = kReference;

struct Round {
    Round(Dice& shared, Dice& mine, MPI_Comm on) : common(shared), own(mine), comm(on) {}

    Dice& common;  // draws the same on all ranks
    Dice& own;     // draws of this rank alone: which memory, which layout
    MPI_Comm comm;
    int rank = 0, size = 0;  // of the own group
    int others = 0;          // of the group that vectors speak of
    bool inter = false, first_group = true;
    std::string call;
    int failures = 0;

    void fail(const std::string& what) {
        std::fprintf(stderr, "rank %d of %d, %s: %s\n", rank, size, call.c_str(), what.c_str());
        ++failures;
    }
    void expect_same(const Buffer& buffer, const char* which) {
        if (!buffer.same())
            fail(std::string(which) + " buffer: " + buffer.difference());
    }
    void expect_untouched(const Buffer& buffer, const char* which) {
        expect_same(buffer, which);
        if (!buffer.untouched())
            fail(std::string(which) + " buffer: the reference wrote to it");
    }

    // The last call's message did not fit: how much of it arrives is not said, and Open MPI 5 and 4.1 differ.
    bool cut = false;

    // Makes the call on either side; the same error class must come back.
    template <typename Call>
    void twice(Call make) {
        int classes[2];
        char text[2][MPI_MAX_ERROR_STRING];
        for (Side side : {kReference, kTested}) {
            current_side = side;
            const int code = make(side);
            int length = 0;
            MPI_Error_class(code, &classes[side]);
            MPI_Error_string(code, text[side], &length);
        }
        cut = classes[kReference] == MPI_ERR_TRUNCATE;
        if (classes[kReference] != classes[kTested])
            fail(std::string("'") + text[kTested] + "' in place of '" + text[kReference] + "'");
    }
    void expect_same_status(const MPI_Status (&status)[2], MPI_Datatype type) {
        int elements[2];
        for (Side side : {kReference, kTested})
            MPI_Get_elements(&status[side], type, &elements[side]);
        if (status[0].MPI_SOURCE != status[1].MPI_SOURCE || status[0].MPI_TAG != status[1].MPI_TAG ||
            elements[0] != elements[1])
            fail("statuses differ");
    }

    // Small mostly, none at all now and then, some large.
    int draw_count() {
        return common.one_in(7) ? 0 : common.one_in(12) ? 600 + common.below(3000) : 1 + common.below(30);
    }
};

struct Communicator {
    MPI_Comm comm;
    bool first_group;
};

// The world, the world backwards, its halves, one between the halves, the last rank and the others backwards, and one
// between those; errors are returned.
std::vector<Communicator> communicators(int rank, int size);
void release(std::vector<Communicator>& all);
Round round_on(const Communicator& chosen, Dice& common, Dice& own);

// Blocks of elements in a vector's form: slots in any order, with gaps between them.
struct Blocks {
    std::vector<int> counts, displs;
    Blocks(Dice& dice, std::vector<int> of);
    std::vector<Segment> segments(const View& view) const;
    int most() const;  // elements from the first to the last
};

void one_rooted(Round& round);         // Bcast, Gather(v), Scatter(v)
void one_all(Round& round);            // Allgather(v), Alltoall(v,w)
void one_reduction(Round& round);      // Reduce, Allreduce, Reduce_scatter(_block), Scan, Exscan, Reduce_local
void one_message(Round& round);        // Send, Recv, Sendrecv ...
void one_packing(Round& round);        // Pack, Unpack, Pack_external, Unpack_external
void one_scattered(Round& round);      // MPI_BOTTOM with blocks on several devices and the host
void one_neighbourhood(Round& round);  // on a communicator with a topology

}  // namespace staged_test
