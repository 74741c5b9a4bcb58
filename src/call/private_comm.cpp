#include "call/private_comm.hpp"

#include <vector>

#include "real.hpp"

namespace swy::call {
namespace {

// Each makes a communicator like `bare`, with the topology of `comm`: the same ranks have the same neighbours, in the
// same order. Returns MPI's code.
int copy_grid(MPI_Comm comm, MPI_Comm bare, MPI_Comm* made) {
    int dims = 0;
    if (const int rc = real::Cartdim_get(comm, &dims); rc != MPI_SUCCESS)
        return rc;
    std::vector<int> sizes(static_cast<std::size_t>(dims)), periods(sizes.size()), place(sizes.size());
    if (const int rc = real::Cart_get(comm, dims, sizes.data(), periods.data(), place.data()); rc != MPI_SUCCESS)
        return rc;
    return real::Cart_create(bare, dims, sizes.data(), periods.data(), 0, made);
}

int copy_graph(MPI_Comm comm, MPI_Comm bare, MPI_Comm* made) {
    int nodes = 0;
    int count = 0;
    if (const int rc = real::Graphdims_get(comm, &nodes, &count); rc != MPI_SUCCESS)
        return rc;
    std::vector<int> index(static_cast<std::size_t>(nodes)), edges(static_cast<std::size_t>(count));
    if (const int rc = real::Graph_get(comm, nodes, count, index.data(), edges.data()); rc != MPI_SUCCESS)
        return rc;
    return real::Graph_create(bare, nodes, index.data(), edges.data(), 0, made);
}

int copy_dist_graph(MPI_Comm comm, MPI_Comm bare, MPI_Comm* made) {
    int in = 0;
    int out = 0;
    int weighted = 0;
    if (const int rc = real::Dist_graph_neighbors_count(comm, &in, &out, &weighted); rc != MPI_SUCCESS)
        return rc;
    std::vector<int> sources(static_cast<std::size_t>(in)), targets(static_cast<std::size_t>(out));
    std::vector<int> in_weights(sources.size()), out_weights(targets.size());
    if (const int rc =
            real::Dist_graph_neighbors(comm, in, sources.data(), weighted ? in_weights.data() : MPI_UNWEIGHTED, out,
                                       targets.data(), weighted ? out_weights.data() : MPI_UNWEIGHTED);
        rc != MPI_SUCCESS)
        return rc;
    return real::Dist_graph_create_adjacent(bare, in, sources.data(), MPI_UNWEIGHTED, out, targets.data(),
                                            MPI_UNWEIGHTED, MPI_INFO_NULL, 0, made);
}

}  // namespace

// Not made by MPI_Comm_dup, which would call the program's attribute callbacks.
int make_private_comm(MPI_Comm comm, MPI_Comm* made) {
    MPI_Group group = MPI_GROUP_NULL;
    int rc = real::Comm_group(comm, &group);
    if (rc == MPI_SUCCESS)
        rc = real::Comm_create(comm, group, made);
    if (rc == MPI_SUCCESS)
        rc = real::Comm_set_errhandler(*made, MPI_ERRORS_RETURN);
    if (group != MPI_GROUP_NULL)
        real::Group_free(&group);
    return rc;
}

int make_private_comm_with_topology(MPI_Comm comm, MPI_Comm* made) {
    int topology = MPI_UNDEFINED;
    int rc = real::Topo_test(comm, &topology);
    if (rc == MPI_SUCCESS)
        rc = make_private_comm(comm, made);
    if (rc != MPI_SUCCESS || topology == MPI_UNDEFINED)
        return rc;
    MPI_Comm bare = *made;
    *made = MPI_COMM_NULL;
    rc = topology == MPI_CART    ? copy_grid(comm, bare, made)
         : topology == MPI_GRAPH ? copy_graph(comm, bare, made)
                                 : copy_dist_graph(comm, bare, made);
    if (rc == MPI_SUCCESS)
        rc = real::Comm_set_errhandler(*made, MPI_ERRORS_RETURN);
    real::Comm_free(&bare);
    return rc;
}

// Not made of the intercommunicator: Open MPI 4.1 can hang where two threads call MPI_Comm_create or MPI_Comm_dup on
// intercommunicators at once.
int make_private_intercomm(MPI_Comm inter, MPI_Comm merged, MPI_Comm* made) {
    constexpr int kTag = 0;  // nothing else is under way on the merged communicator
    int rank = 0, place = 0, own = 0;
    real::Comm_rank(inter, &rank);
    real::Comm_size(inter, &own);
    real::Comm_rank(merged, &place);
    const bool first = place == rank;
    MPI_Comm group = MPI_COMM_NULL;
    int rc = real::Comm_split(merged, first ? 0 : 1, rank, &group);
    if (rc == MPI_SUCCESS)
        rc = real::Intercomm_create(group, 0, merged, first ? own : 0, kTag, made);
    if (rc == MPI_SUCCESS)
        rc = real::Comm_set_errhandler(*made, MPI_ERRORS_RETURN);
    if (group != MPI_COMM_NULL)
        real::Comm_free(&group);
    return rc;
}

}  // namespace swy::call
