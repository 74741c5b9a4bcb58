#include "carrier/staged/group.hpp"

#include "real.hpp"

namespace swy::carrier::staged {

Group group_of(MPI_Comm comm) {
    Group group;
    if (comm == MPI_COMM_NULL)
        return group;
    int inter = 0;
    real::Comm_test_inter(comm, &inter);
    real::Comm_rank(comm, &group.rank);
    real::Comm_size(comm, &group.own);
    group.inter = inter != 0;
    group.others = group.own;
    if (group.inter)
        real::Comm_remote_size(comm, &group.others);
    return group;
}

Neighbours neighbours_of(MPI_Comm comm) {
    Neighbours neighbours;
    int topology = MPI_UNDEFINED;
    if (comm == MPI_COMM_NULL || real::Topo_test(comm, &topology) != MPI_SUCCESS)
        return neighbours;
    if (topology == MPI_CART) {
        int dims = 0;
        real::Cartdim_get(comm, &dims);
        neighbours.sources = neighbours.targets = 2 * dims;
    } else if (topology == MPI_GRAPH) {
        int rank = 0;
        real::Comm_rank(comm, &rank);
        real::Graph_neighbors_count(comm, rank, &neighbours.sources);
        neighbours.targets = neighbours.sources;
    } else if (topology == MPI_DIST_GRAPH) {
        int weighted = 0;
        real::Dist_graph_neighbors_count(comm, &neighbours.sources, &neighbours.targets, &weighted);
    }
    return neighbours;
}

}  // namespace swy::carrier::staged
