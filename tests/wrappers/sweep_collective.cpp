// The sweep's cases of collectives, within one group, in their blocking form: sweep.cpp makes the others of them.
#include <numeric>

#include "../collective_forms.hpp"
#include "sweep.hpp"

namespace sweep {
namespace {

// Uneven blocks with a gap after each, as the vector forms allow: r + 1 elements less than n from rank r.
struct Blocks {
    Ints counts, displs, bytes;
    std::vector<MPI_Datatype> types;
    explicit Blocks(const World& w) : types(static_cast<std::size_t>(w.size), MPI_INT) {
        for (int r = 0; r < w.size; r++) {
            counts.push_back(w.n - r - 1);
            displs.push_back(r * w.n);
            bytes.push_back(r * w.n * static_cast<int>(sizeof(int)));
        }
    }
    int mine(const World& w) const { return counts[static_cast<std::size_t>(w.rank)]; }
};

// What each rank sends to each other must fit what that one receives: everybody the same number.
struct Exchange : Blocks {
    explicit Exchange(const World& w) : Blocks(w) { counts.assign(counts.size(), w.n - 1); }
};

int root(const World& w) {
    return w.size - 1;
}

Ints block(const World& w) {
    return {w.n};
}
Ints two_blocks(const World& w) {
    return {w.n, w.n};
}
Ints block_and_row(const World& w) {
    return {w.n, w.n * w.size};
}
Ints row_and_block(const World& w) {
    return {w.n * w.size, w.n};
}
Ints row(const World& w) {
    return {w.n * w.size};
}
Ints two_rows(const World& w) {
    return {w.n * w.size, w.n * w.size};
}

std::vector<Case> movement() {
    return {
        {"MPI_Bcast", "", 1, block,
         [](const World& w, int* const* b) { return forms::Bcast(b[0], w.n, MPI_INT, root(w), w.comm); }},
        {"MPI_Gather", "", 2, block_and_row,
         [](const World& w, int* const* b) {
             return forms::Gather(b[0], w.n, MPI_INT, b[1], w.n, MPI_INT, root(w), w.comm);
         }},
        {"MPI_Gather", "in place", 2, block_and_row,
         [](const World& w, int* const* b) {
             return forms::Gather(w.rank == root(w) ? MPI_IN_PLACE : b[0], w.n, MPI_INT, b[1], w.n, MPI_INT, root(w),
                                  w.comm);
         }},
        {"MPI_Gatherv", "", 2, block_and_row,
         [](const World& w, int* const* b) {
             const Blocks v(w);
             return forms::Gatherv(b[0], v.mine(w), MPI_INT, b[1], v.counts.data(), v.displs.data(), MPI_INT, root(w),
                                   w.comm);
         }},
        {"MPI_Gatherv", "in place", 2, block_and_row,
         [](const World& w, int* const* b) {
             const Blocks v(w);
             return forms::Gatherv(w.rank == root(w) ? MPI_IN_PLACE : b[0], v.mine(w), MPI_INT, b[1], v.counts.data(),
                                   v.displs.data(), MPI_INT, root(w), w.comm);
         }},
        {"MPI_Scatter", "", 2, row_and_block,
         [](const World& w, int* const* b) {
             return forms::Scatter(b[0], w.n, MPI_INT, b[1], w.n, MPI_INT, root(w), w.comm);
         }},
        {"MPI_Scatter", "in place", 2, row_and_block,
         [](const World& w, int* const* b) {
             return forms::Scatter(b[0], w.n, MPI_INT, w.rank == root(w) ? MPI_IN_PLACE : b[1], w.n, MPI_INT, root(w),
                                   w.comm);
         }},
        {"MPI_Scatterv", "", 2, row_and_block,
         [](const World& w, int* const* b) {
             const Blocks v(w);
             return forms::Scatterv(b[0], v.counts.data(), v.displs.data(), MPI_INT, b[1], v.mine(w), MPI_INT, root(w),
                                    w.comm);
         }},
        {"MPI_Allgather", "", 2, block_and_row,
         [](const World& w, int* const* b) {
             return forms::Allgather(b[0], w.n, MPI_INT, b[1], w.n, MPI_INT, w.comm);
         }},
        {"MPI_Allgather", "in place", 1, row,
         [](const World& w, int* const* b) {
             return forms::Allgather(MPI_IN_PLACE, 0, MPI_INT, b[0], w.n, MPI_INT, w.comm);
         }},
        {"MPI_Allgatherv", "", 2, block_and_row,
         [](const World& w, int* const* b) {
             const Blocks v(w);
             return forms::Allgatherv(b[0], v.mine(w), MPI_INT, b[1], v.counts.data(), v.displs.data(), MPI_INT,
                                      w.comm);
         }},
        {"MPI_Allgatherv", "in place", 1, row,
         [](const World& w, int* const* b) {
             const Blocks v(w);
             return forms::Allgatherv(MPI_IN_PLACE, 0, MPI_INT, b[0], v.counts.data(), v.displs.data(), MPI_INT,
                                      w.comm);
         }},
    };
}

std::vector<Case> exchanges() {
    return {
        {"MPI_Alltoall", "", 2, two_rows,
         [](const World& w, int* const* b) { return forms::Alltoall(b[0], w.n, MPI_INT, b[1], w.n, MPI_INT, w.comm); }},
        {"MPI_Alltoall", "in place", 1, row,
         [](const World& w, int* const* b) {
             return forms::Alltoall(MPI_IN_PLACE, 0, MPI_INT, b[0], w.n, MPI_INT, w.comm);
         }},
        {"MPI_Alltoallv", "", 2, two_rows,
         [](const World& w, int* const* b) {
             const Exchange v(w);
             return forms::Alltoallv(b[0], v.counts.data(), v.displs.data(), MPI_INT, b[1], v.counts.data(),
                                     v.displs.data(), MPI_INT, w.comm);
         }},
        {"MPI_Alltoallv", "in place", 1, row,
         [](const World& w, int* const* b) {
             const Exchange v(w);
             return forms::Alltoallv(MPI_IN_PLACE, nullptr, nullptr, MPI_INT, b[0], v.counts.data(), v.displs.data(),
                                     MPI_INT, w.comm);
         }},
        {"MPI_Alltoallw", "", 2, two_rows,
         [](const World& w, int* const* b) {
             const Exchange v(w);
             return forms::Alltoallw(b[0], v.counts.data(), v.bytes.data(), v.types.data(), b[1], v.counts.data(),
                                     v.bytes.data(), v.types.data(), w.comm);
         }},
        {"MPI_Alltoallw", "in place", 1, row,
         [](const World& w, int* const* b) {
             const Exchange v(w);
             return forms::Alltoallw(MPI_IN_PLACE, nullptr, nullptr, nullptr, b[0], v.counts.data(), v.bytes.data(),
                                     v.types.data(), w.comm);
         }},
    };
}

std::vector<Case> reductions() {
    return {
        {"MPI_Reduce", "", 2, two_blocks,
         [](const World& w, int* const* b) {
             return forms::Reduce(b[0], b[1], w.n, MPI_INT, MPI_SUM, root(w), w.comm);
         }},
        {"MPI_Reduce", "in place", 2, two_blocks,
         [](const World& w, int* const* b) {
             return forms::Reduce(w.rank == root(w) ? MPI_IN_PLACE : b[0], b[1], w.n, MPI_INT, MPI_MAX, root(w),
                                  w.comm);
         }},
        {"MPI_Allreduce", "", 2, two_blocks,
         [](const World& w, int* const* b) { return forms::Allreduce(b[0], b[1], w.n, MPI_INT, MPI_SUM, w.comm); }},
        {"MPI_Allreduce", "in place", 1, block,
         [](const World& w, int* const* b) {
             return forms::Allreduce(MPI_IN_PLACE, b[0], w.n, MPI_INT, MPI_MIN, w.comm);
         }},
        {"MPI_Allreduce", "an operator that NCCL lacks", 2, two_blocks,
         [](const World& w, int* const* b) { return forms::Allreduce(b[0], b[1], w.n, MPI_INT, MPI_BXOR, w.comm); }},
        {"MPI_Reduce_scatter_block", "", 2, row_and_block,
         [](const World& w, int* const* b) {
             return forms::Reduce_scatter_block(b[0], b[1], w.n, MPI_INT, MPI_SUM, w.comm);
         }},
        {"MPI_Reduce_scatter_block", "in place", 1, row,
         [](const World& w, int* const* b) {
             const int code = forms::Reduce_scatter_block(MPI_IN_PLACE, b[0], w.n, MPI_INT, MPI_SUM, w.comm);
             return code;
         }},
        {"MPI_Reduce_scatter", "", 2, row_and_block,
         [](const World& w, int* const* b) {
             const Blocks v(w);
             return forms::Reduce_scatter(b[0], b[1], v.counts.data(), MPI_INT, MPI_SUM, w.comm);
         }},
        {"MPI_Reduce_scatter", "in place", 1, row,
         [](const World& w, int* const* b) {
             const Blocks v(w);
             return forms::Reduce_scatter(MPI_IN_PLACE, b[0], v.counts.data(), MPI_INT, MPI_SUM, w.comm);
         }},
        {"MPI_Scan", "", 2, two_blocks,
         [](const World& w, int* const* b) { return forms::Scan(b[0], b[1], w.n, MPI_INT, MPI_SUM, w.comm); }},
        {"MPI_Scan", "in place", 1, block,
         [](const World& w, int* const* b) { return forms::Scan(MPI_IN_PLACE, b[0], w.n, MPI_INT, MPI_SUM, w.comm); }},
        {"MPI_Exscan", "", 2, two_blocks,
         [](const World& w, int* const* b) { return forms::Exscan(b[0], b[1], w.n, MPI_INT, MPI_SUM, w.comm); }},
        {"MPI_Exscan", "in place", 1, block,
         [](const World& w, int* const* b) {
             return forms::Exscan(MPI_IN_PLACE, b[0], w.n, MPI_INT, MPI_SUM, w.comm);
         }},
        {"MPI_Reduce_local", "", 2, two_blocks,
         [](const World& w, int* const* b) { return MPI_Reduce_local(b[0], b[1], w.n, MPI_INT, MPI_SUM); }},
    };
}

}  // namespace

std::vector<Case> collective_cases() {
    std::vector<Case> all = movement();
    for (const auto& more : {exchanges(), reductions()})
        all.insert(all.end(), more.begin(), more.end());
    return all;
}

}  // namespace sweep
