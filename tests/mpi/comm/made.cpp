// Every way in which MPI makes a communicator of processes that run already: large device buffers work on it. The last
// line of rank 0 is how many MPI_Allreduce of this program NCCL can carry, summed over ranks, which made.test compares
// with the report.
#include <mpi.h>

#include <cstdio>
#include <functional>
#include <vector>

#include "use.hpp"

namespace {

int rank = 0, size = 0, failures = 0;
long over_nccl = 0;

constexpr int kSumsOfUse = 2;  // in Use::all()

bool low() {
    return rank < size / 2;
}

MPI_Group backwards() {
    MPI_Group all = MPI_GROUP_NULL, reversed = MPI_GROUP_NULL;
    int range[1][3] = {{size - 1, 0, -1}};
    MPI_Comm_group(MPI_COMM_WORLD, &all);
    MPI_Group_range_incl(all, 1, range, &reversed);
    MPI_Group_free(&all);
    return reversed;
}

MPI_Comm duplicate() {
    MPI_Comm comm = MPI_COMM_NULL;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    return comm;
}

MPI_Comm idup() {
    MPI_Comm comm = MPI_COMM_NULL;
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Comm_idup(MPI_COMM_WORLD, &comm, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    return comm;
}

MPI_Comm dup_with_info() {
    MPI_Comm comm = MPI_COMM_NULL;
    MPI_Info info = MPI_INFO_NULL;
    MPI_Info_create(&info);
    MPI_Info_set(info, "mpi_assert_allow_overtaking", "false");
    MPI_Comm_dup_with_info(MPI_COMM_WORLD, info, &comm);
    MPI_Info_free(&info);
    return comm;
}

MPI_Comm split() {
    MPI_Comm comm = MPI_COMM_NULL;
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &comm);
    return comm;
}

// One rank is in none.
MPI_Comm split_with_undefined() {
    MPI_Comm comm = MPI_COMM_NULL;
    MPI_Comm_split(MPI_COMM_WORLD, rank == 1 ? MPI_UNDEFINED : 0, rank, &comm);
    return comm;
}

MPI_Comm split_type() {
    MPI_Comm comm = MPI_COMM_NULL;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, size - rank, MPI_INFO_NULL, &comm);
    return comm;
}

MPI_Comm create() {
    MPI_Comm comm = MPI_COMM_NULL;
    MPI_Group group = backwards();
    MPI_Comm_create(MPI_COMM_WORLD, group, &comm);
    MPI_Group_free(&group);
    return comm;
}

// Its members alone make the call.
MPI_Comm create_group() {
    MPI_Comm comm = MPI_COMM_NULL;
    MPI_Group all = backwards(), group = MPI_GROUP_NULL;
    const int without = size - 1;  // MPI_COMM_WORLD's rank 0
    MPI_Group_excl(all, 1, &without, &group);
    if (rank != 0)
        MPI_Comm_create_group(MPI_COMM_WORLD, group, 9, &comm);
    MPI_Group_free(&group);
    MPI_Group_free(&all);
    return comm;
}

MPI_Comm half() {
    MPI_Comm comm = MPI_COMM_NULL;
    MPI_Comm_split(MPI_COMM_WORLD, low() ? 0 : 1, rank, &comm);
    return comm;
}

MPI_Comm intercomm() {
    MPI_Comm side = half(), comm = MPI_COMM_NULL;
    MPI_Intercomm_create(side, 0, MPI_COMM_WORLD, low() ? size / 2 : 0, 11, &comm);
    MPI_Comm_free(&side);
    return comm;
}

// The upper half comes first.
MPI_Comm merge() {
    MPI_Comm between = intercomm(), comm = MPI_COMM_NULL;
    MPI_Intercomm_merge(between, low() ? 1 : 0, &comm);
    MPI_Comm_free(&between);
    return comm;
}

MPI_Comm duplicate_of_intercomm() {
    MPI_Comm between = intercomm(), comm = MPI_COMM_NULL;
    MPI_Comm_dup(between, &comm);
    MPI_Comm_free(&between);
    return comm;
}

MPI_Comm cart() {
    MPI_Comm comm = MPI_COMM_NULL;
    const int dims[2] = {2, size / 2}, around[2] = {1, 0};
    MPI_Cart_create(MPI_COMM_WORLD, 2, dims, around, 1, &comm);
    return comm;
}

MPI_Comm cart_sub() {
    MPI_Comm grid = cart(), comm = MPI_COMM_NULL;
    const int keep[2] = {1, 0};
    MPI_Cart_sub(grid, keep, &comm);
    MPI_Comm_free(&grid);
    return comm;
}

MPI_Comm graph() {
    MPI_Comm comm = MPI_COMM_NULL;
    std::vector<int> index, edges;
    for (int i = 0; i < size; ++i) {
        index.push_back(i + 1);
        edges.push_back((i + 1) % size);
    }
    MPI_Graph_create(MPI_COMM_WORLD, size, index.data(), edges.data(), 0, &comm);
    return comm;
}

MPI_Comm dist_graph() {
    MPI_Comm comm = MPI_COMM_NULL;
    const int next = (rank + 1) % size, degree = 1;
    MPI_Dist_graph_create(MPI_COMM_WORLD, 1, &rank, &degree, &next, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &comm);
    return comm;
}

MPI_Comm dist_graph_adjacent() {
    MPI_Comm comm = MPI_COMM_NULL;
    const int next = (rank + 1) % size, last = (rank + size - 1) % size;
    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, &last, MPI_UNWEIGHTED, 1, &next, MPI_UNWEIGHTED, MPI_INFO_NULL, 0,
                                   &comm);
    return comm;
}

struct Way {
    const char* name;
    MPI_Comm (*make)();
};
constexpr Way kWays[] = {
    {"MPI_Comm_dup", duplicate},
    {"MPI_Comm_idup", idup},
    {"MPI_Comm_dup_with_info", dup_with_info},
    {"MPI_Comm_split", split},
    {"MPI_Comm_split with MPI_UNDEFINED", split_with_undefined},
    {"MPI_Comm_split_type", split_type},
    {"MPI_Comm_create", create},
    {"MPI_Comm_create_group", create_group},
    {"MPI_Intercomm_create", intercomm},
    {"MPI_Intercomm_merge", merge},
    {"MPI_Comm_dup of an intercommunicator", duplicate_of_intercomm},
    {"MPI_Cart_create", cart},
    {"MPI_Cart_sub", cart_sub},
    {"MPI_Graph_create", graph},
    {"MPI_Dist_graph_create", dist_graph},
    {"MPI_Dist_graph_create_adjacent", dist_graph_adjacent},
};

// A communicator of one rank has no NCCL communicator.
bool nccl_carries(MPI_Comm comm) {
    int inter = 0, members = 0;
    MPI_Comm_test_inter(comm, &inter);
    MPI_Comm_size(comm, &members);
    return inter != 0 || members > 1;
}

void try_way(const Way& way, bool disconnects) {
    MPI_Comm comm = way.make();
    if (comm == MPI_COMM_NULL)
        return;
    failures += comm_test::Use(comm, way.name).all(low());
    over_nccl += nccl_carries(comm) ? kSumsOfUse : 0;
    disconnects ? MPI_Comm_disconnect(&comm) : MPI_Comm_free(&comm);
}

}  // namespace

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    gpu::Driver::get().use(rank % gpu::Driver::get().devices);
    // Before and after the parent itself has been used for device buffers.
    for (const bool used : {false, true}) {
        if (used) {
            failures += comm_test::Use(MPI_COMM_WORLD, "MPI_COMM_WORLD").all();
            over_nccl += kSumsOfUse;
        }
        for (const Way& way : kWays)
            try_way(way, used);
        // All at once, freed in the order in which they were made.
        std::vector<MPI_Comm> together;
        for (const Way& way : kWays)
            together.push_back(way.make());
        for (MPI_Comm comm : together)
            if (comm != MPI_COMM_NULL) {
                comm_test::Use use(comm, "together");
                failures += use.all(low());
                over_nccl += nccl_carries(comm) ? kSumsOfUse : 0;
            }
        for (MPI_Comm& comm : together)
            if (comm != MPI_COMM_NULL)
                MPI_Comm_free(&comm);
    }
    int anywhere = 0;
    long sum = 0;
    MPI_Allreduce(&failures, &anywhere, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Reduce(&over_nccl, &sum, 1, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        std::printf("%ld\n", sum);
    MPI_Finalize();
    return anywhere == 0 ? 0 : 1;
}
