// The sweep's cases of neighbourhood collectives, on a graph with two sources and two targets.
#include <array>

#include "../collective_forms.hpp"
#include "sweep.hpp"

namespace sweep {
namespace {

Ints block_and_two(const World& w) {
    return {w.n, 2 * w.n};
}
Ints two_and_two(const World& w) {
    return {2 * w.n, 2 * w.n};
}

// Two blocks in reverse order with a gap.
struct Blocks {
    std::array<int, 2> counts, displs;
    std::array<MPI_Aint, 2> bytes;
    std::array<MPI_Datatype, 2> types{MPI_INT, MPI_INT};
    explicit Blocks(const World& w) : counts{w.n - 1, w.n - 1}, displs{w.n, 0} {
        bytes = {static_cast<MPI_Aint>(sizeof(int)) * w.n, 0};
    }
};

}  // namespace

std::vector<Case> neighborhood_cases() {
    return {
        {"MPI_Neighbor_allgather", "", 2, block_and_two,
         [](const World& w, int* const* b) {
             return forms::Neighbor_allgather(b[0], w.n, MPI_INT, b[1], w.n, MPI_INT, w.ring);
         }},
        {"MPI_Neighbor_allgatherv", "", 2, block_and_two,
         [](const World& w, int* const* b) {
             const Blocks v(w);
             return forms::Neighbor_allgatherv(b[0], w.n - 1, MPI_INT, b[1], v.counts.data(), v.displs.data(), MPI_INT,
                                               w.ring);
         }},
        {"MPI_Neighbor_alltoall", "", 2, two_and_two,
         [](const World& w, int* const* b) {
             return forms::Neighbor_alltoall(b[0], w.n, MPI_INT, b[1], w.n, MPI_INT, w.ring);
         }},
        {"MPI_Neighbor_alltoallv", "", 2, two_and_two,
         [](const World& w, int* const* b) {
             const Blocks v(w);
             return forms::Neighbor_alltoallv(b[0], v.counts.data(), v.displs.data(), MPI_INT, b[1], v.counts.data(),
                                              v.displs.data(), MPI_INT, w.ring);
         }},
        {"MPI_Neighbor_alltoallw", "", 2, two_and_two,
         [](const World& w, int* const* b) {
             const Blocks v(w);
             return forms::Neighbor_alltoallw(b[0], v.counts.data(), v.bytes.data(), v.types.data(), b[1],
                                              v.counts.data(), v.bytes.data(), v.types.data(), w.ring);
         }},
    };
}

}  // namespace sweep
