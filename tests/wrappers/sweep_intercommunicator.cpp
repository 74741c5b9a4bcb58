// The sweep's cases of collectives between two groups (MPI 3.1 section 5.2.2): counts are those of the remote group,
// and a rooted call has one group with MPI_ROOT and MPI_PROC_NULL, the other with the root's rank.
#include "../collective_forms.hpp"
#include "sweep.hpp"

namespace sweep {
namespace {

// The even group is the root's; its first rank is the root.
int root(const World& w) {
    return !w.even() ? 0 : w.rank == 0 ? MPI_ROOT : MPI_PROC_NULL;
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
Ints two_rows(const World& w) {
    return {w.n * w.size, w.n * w.size};
}

// The same total in both groups, as MPI_Reduce_scatter wants it.
int part(const World& w) {
    return w.n / w.local();
}

}  // namespace

std::vector<Case> intercommunicator_cases() {
    return {
        {"MPI_Bcast", "between groups", 1, block,
         [](const World& w, int* const* b) { return forms::Bcast(b[0], w.n, MPI_INT, root(w), w.inter); }},
        {"MPI_Gather", "between groups", 2, block_and_row,
         [](const World& w, int* const* b) {
             return forms::Gather(b[0], w.n, MPI_INT, b[1], w.n, MPI_INT, root(w), w.inter);
         }},
        {"MPI_Gatherv", "between groups", 2, block_and_row,
         [](const World& w, int* const* b) {
             Ints counts, displs;
             for (int r = 0; r < w.remote(); r++) {
                 counts.push_back(w.n - 1);
                 displs.push_back(r * w.n);
             }
             return forms::Gatherv(b[0], w.n - 1, MPI_INT, b[1], counts.data(), displs.data(), MPI_INT, root(w),
                                   w.inter);
         }},
        {"MPI_Scatter", "between groups", 2, row_and_block,
         [](const World& w, int* const* b) {
             return forms::Scatter(b[0], w.n, MPI_INT, b[1], w.n, MPI_INT, root(w), w.inter);
         }},
        {"MPI_Allgather", "between groups", 2, block_and_row,
         [](const World& w, int* const* b) {
             return forms::Allgather(b[0], w.n, MPI_INT, b[1], w.n, MPI_INT, w.inter);
         }},
        {"MPI_Alltoall", "between groups", 2, two_rows,
         [](const World& w, int* const* b) {
             return forms::Alltoall(b[0], w.n, MPI_INT, b[1], w.n, MPI_INT, w.inter);
         }},
        {"MPI_Alltoallw", "between groups", 2, two_rows,
         [](const World& w, int* const* b) {
             Ints counts, bytes;
             for (int r = 0; r < w.remote(); r++) {
                 counts.push_back(w.n - 1);
                 bytes.push_back(r * w.n * static_cast<int>(sizeof(int)));
             }
             const std::vector<MPI_Datatype> types(counts.size(), MPI_INT);
             return forms::Alltoallw(b[0], counts.data(), bytes.data(), types.data(), b[1], counts.data(), bytes.data(),
                                     types.data(), w.inter);
         }},
        {"MPI_Reduce", "between groups", 2, two_blocks,
         [](const World& w, int* const* b) {
             return forms::Reduce(b[0], b[1], w.n, MPI_INT, MPI_SUM, root(w), w.inter);
         }},
        {"MPI_Allreduce", "between groups", 2, two_blocks,
         [](const World& w, int* const* b) { return forms::Allreduce(b[0], b[1], w.n, MPI_INT, MPI_SUM, w.inter); }},
        {"MPI_Reduce_scatter_block", "between groups", 2, row_and_block,
         [](const World& w, int* const* b) {
             return forms::Reduce_scatter_block(b[0], b[1], part(w), MPI_INT, MPI_SUM, w.inter);
         }},
        {"MPI_Reduce_scatter", "between groups", 2, row_and_block,
         [](const World& w, int* const* b) {
             const Ints counts(static_cast<std::size_t>(w.local()), part(w));
             return forms::Reduce_scatter(b[0], b[1], counts.data(), MPI_INT, MPI_SUM, w.inter);
         }},
    };
}

}  // namespace sweep
