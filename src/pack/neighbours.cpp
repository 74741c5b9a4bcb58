#include "pack/neighbours.hpp"

#include "real.hpp"

namespace swy::pack {
namespace {

// The neighbours in a grid: along each dimension first the one at displacement -1, then the one at +1 (MPI 4.0 section
// 8.6).
std::vector<int> in_grid(MPI_Comm comm) {
    int dims = 0;
    real::Cartdim_get(comm, &dims);
    std::vector<int> found;
    for (int dim = 0; dim < dims; ++dim) {
        int before = MPI_PROC_NULL;
        int after = MPI_PROC_NULL;
        real::Cart_shift(comm, dim, 1, &before, &after);
        found.insert(found.end(), {before, after});
    }
    return found;
}

std::vector<int> in_graph(MPI_Comm comm) {
    int rank = 0;
    int count = 0;
    real::Comm_rank(comm, &rank);
    real::Graph_neighbors_count(comm, rank, &count);
    std::vector<int> found(static_cast<std::size_t>(count));
    real::Graph_neighbors(comm, rank, count, found.data());
    return found;
}

Neighbours in_dist_graph(MPI_Comm comm) {
    int sources = 0;
    int targets = 0;
    int weighted = 0;
    real::Dist_graph_neighbors_count(comm, &sources, &targets, &weighted);
    Neighbours found{std::vector<int>(static_cast<std::size_t>(sources)),
                     std::vector<int>(static_cast<std::size_t>(targets))};
    std::vector<int> in_weights(found.sources.size());
    std::vector<int> out_weights(found.targets.size());
    real::Dist_graph_neighbors(comm, sources, found.sources.data(), weighted ? in_weights.data() : MPI_UNWEIGHTED,
                               targets, found.targets.data(), weighted ? out_weights.data() : MPI_UNWEIGHTED);
    return found;
}

}  // namespace

Neighbours neighbours_of(MPI_Comm comm) {
    int topology = MPI_UNDEFINED;
    if (comm == MPI_COMM_NULL || real::Topo_test(comm, &topology) != MPI_SUCCESS)
        return {};
    if (topology == MPI_DIST_GRAPH)
        return in_dist_graph(comm);
    Neighbours found;
    if (topology == MPI_CART)
        found.sources = in_grid(comm);
    else if (topology == MPI_GRAPH)
        found.sources = in_graph(comm);
    found.targets = found.sources;
    return found;
}

}  // namespace swy::pack
