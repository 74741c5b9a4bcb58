// Communicators made of one that carries large device buffers already: they and their parent work at once. Rank 0
// prints how many MPI_Allreduce of this program NCCL can carry and how many parts the children have that are used, both
// summed over ranks; children.test compares them with the report. With --unused there are also many duplicates that are
// never used, with --rough parents freed first and parents with operations under way.
#include <mpi.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "use.hpp"

namespace {

int rank = 0, size = 0, failures = 0;
long sums = 0, parts = 0;

constexpr int kSumsOfUse = 2;  // in Use::all()

void use(MPI_Comm comm, const char* what) {
    int members = 0;
    MPI_Comm_size(comm, &members);
    failures += comm_test::Use(comm, what).all();
    sums += members > 1 ? kSumsOfUse : 0;
}

MPI_Comm split(MPI_Comm parent, int color, int key) {
    MPI_Comm comm = MPI_COMM_NULL;
    MPI_Comm_split(parent, color, key, &comm);
    return comm;
}

MPI_Comm duplicate(MPI_Comm parent) {
    MPI_Comm comm = MPI_COMM_NULL;
    MPI_Comm_dup(parent, &comm);
    return comm;
}

MPI_Comm dup_with_info(MPI_Comm parent) {
    MPI_Comm comm = MPI_COMM_NULL;
    MPI_Comm_dup_with_info(parent, MPI_INFO_NULL, &comm);
    return comm;
}

MPI_Comm odd_and_even(MPI_Comm parent) {
    return split(parent, rank % 2, -rank);
}

// One is in none, and the others come in reverse order.
MPI_Comm all_but_one(MPI_Comm parent) {
    return split(parent, rank == 1 ? MPI_UNDEFINED : 3, -rank);
}

// Communicators of one rank beside one of several.
MPI_Comm alone(MPI_Comm parent) {
    return split(parent, rank < 2 ? rank : 2, 0);
}

MPI_Comm by_type(MPI_Comm parent) {
    MPI_Comm comm = MPI_COMM_NULL;
    MPI_Comm_split_type(parent, MPI_COMM_TYPE_SHARED, -rank, MPI_INFO_NULL, &comm);
    return comm;
}

MPI_Comm create(MPI_Comm parent) {
    MPI_Group all = MPI_GROUP_NULL, group = MPI_GROUP_NULL;
    MPI_Comm comm = MPI_COMM_NULL;
    int range[1][3] = {{size - 1, 1, -1}};
    MPI_Comm_group(parent, &all);
    MPI_Group_range_incl(all, 1, range, &group);
    MPI_Comm_create(parent, group, &comm);
    MPI_Group_free(&group);
    MPI_Group_free(&all);
    return comm;
}

MPI_Comm cart(MPI_Comm parent) {
    MPI_Comm comm = MPI_COMM_NULL;
    const int dims[2] = {2, size / 2}, around[2] = {1, 0};
    MPI_Cart_create(parent, 2, dims, around, 1, &comm);
    return comm;
}

MPI_Comm graph(MPI_Comm parent) {
    MPI_Comm comm = MPI_COMM_NULL;
    std::vector<int> index, edges;
    for (int i = 0; i < size; ++i) {
        index.push_back(i + 1);
        edges.push_back((i + 1) % size);
    }
    MPI_Graph_create(parent, size, index.data(), edges.data(), 0, &comm);
    return comm;
}

MPI_Comm dist_graph(MPI_Comm parent) {
    MPI_Comm comm = MPI_COMM_NULL;
    const int next = (rank + 1) % size, degree = 1;
    MPI_Dist_graph_create(parent, 1, &rank, &degree, &next, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &comm);
    return comm;
}

MPI_Comm dist_graph_adjacent(MPI_Comm parent) {
    MPI_Comm comm = MPI_COMM_NULL;
    const int next = (rank + 1) % size, last = (rank + size - 1) % size;
    MPI_Dist_graph_create_adjacent(parent, 1, &last, MPI_UNWEIGHTED, 1, &next, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &comm);
    return comm;
}

struct Way {
    const char* name;
    MPI_Comm (*make)(MPI_Comm parent);
};
constexpr Way kWays[] = {
    {"MPI_Comm_dup", duplicate},
    {"MPI_Comm_dup_with_info", dup_with_info},
    {"MPI_Comm_split", odd_and_even},
    {"MPI_Comm_split with MPI_UNDEFINED", all_but_one},
    {"MPI_Comm_split into one and several", alone},
    {"MPI_Comm_split_type", by_type},
    {"MPI_Comm_create", create},
    {"MPI_Cart_create", cart},
    {"MPI_Graph_create", graph},
    {"MPI_Dist_graph_create", dist_graph},
    {"MPI_Dist_graph_create_adjacent", dist_graph_adjacent},
};

MPI_Comm make(const Way& way, MPI_Comm parent) {
    MPI_Comm comm = way.make(parent);
    int members = 0;
    if (comm != MPI_COMM_NULL)
        MPI_Comm_size(comm, &members);
    parts += members > 1 ? 1 : 0;
    return comm;
}

void try_way(const Way& way) {
    MPI_Comm comm = make(way, MPI_COMM_WORLD);
    if (comm != MPI_COMM_NULL) {
        use(comm, way.name);
        MPI_Comm_free(&comm);
    }
    use(MPI_COMM_WORLD, "the parent");
}

// Of a child: its own, once it carries device buffers itself.
void generations() {
    const Way sub{"MPI_Cart_sub", [](MPI_Comm parent) {
                      MPI_Comm comm = MPI_COMM_NULL;
                      const int keep[2] = {1, 0};
                      MPI_Cart_sub(parent, keep, &comm);
                      return comm;
                  }};
    MPI_Comm grid = make({"MPI_Cart_create", cart}, MPI_COMM_WORLD);
    use(grid, "MPI_Cart_create");
    MPI_Comm column = make(sub, grid);
    use(column, sub.name);
    MPI_Comm_free(&grid);
    use(column, "MPI_Cart_sub, the grid freed");
    MPI_Comm_free(&column);
}

void unused() {
    constexpr int kDuplicates = 100;
    std::vector<MPI_Comm> duplicates;
    for (int i = 0; i < kDuplicates; ++i)
        duplicates.push_back(duplicate(MPI_COMM_WORLD));
    parts += 1;
    use(duplicates.back(), "one of many duplicates");
    for (MPI_Comm comm : duplicates)
        MPI_Comm_free(&comm);
}

void rough() {
    for (int round = 0; round < 20; ++round) {
        MPI_Comm unused = odd_and_even(MPI_COMM_WORLD), used = duplicate(MPI_COMM_WORLD);
        MPI_Comm child = split(used, rank / 2, rank);
        if (round % 2 == 0)
            MPI_Comm_free(&unused);
        const std::vector<std::byte> zeros(comm_test::kCount * sizeof(double));
        const gpu::Memory from(gpu::Kind::kDevice, zeros), to(gpu::Kind::kDevice, zeros),
            came(gpu::Kind::kDevice, zeros);
        MPI_Request requests[3];
        MPI_Iallreduce(from.at(0), to.at(0), comm_test::kCount, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, &requests[0]);
        MPI_Irecv(came.at(0), comm_test::kCount, MPI_DOUBLE, (rank + size - 1) % size, 1, MPI_COMM_WORLD, &requests[1]);
        MPI_Isend(from.at(0), comm_test::kCount, MPI_DOUBLE, (rank + 1) % size, 1, MPI_COMM_WORLD, &requests[2]);
        MPI_Comm beside = duplicate(MPI_COMM_WORLD);
        MPI_Waitall(3, requests, MPI_STATUSES_IGNORE);
        use(beside, "made beside operations");
        use(used, "two of one parent");
        MPI_Comm_free(&used);
        use(child, "its parent freed");
        MPI_Comm_free(&child);
        MPI_Comm_free(&beside);
        if (round % 2 != 0)
            MPI_Comm_free(&unused);
        use(MPI_COMM_WORLD, "the parent");
    }
}

}  // namespace

int main(int argc, char** argv) {
    // Before MPI_Init, so that MPI_COMM_WORLD too can have its NCCL communicator from the start.
    const char* own = std::getenv("OMPI_COMM_WORLD_RANK");
    gpu::Driver::get().use((own != nullptr ? std::atoi(own) : 0) % gpu::Driver::get().devices);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    failures += comm_test::Use(MPI_COMM_WORLD, "MPI_COMM_WORLD").just_begun();
    use(MPI_COMM_WORLD, "MPI_COMM_WORLD");
    if (argc > 1 && std::string_view(argv[1]) == "--rough") {
        rough();
    } else if (argc > 1 && std::string_view(argv[1]) == "--unused") {
        unused();
    } else {
        for (const Way& way : kWays)
            try_way(way);
        generations();
    }
    int anywhere = 0;
    long mine[2] = {sums, parts}, all[2] = {};
    MPI_Allreduce(&failures, &anywhere, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Reduce(mine, all, 2, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        std::printf("%ld %ld\n", all[0], all[1]);
    MPI_Finalize();
    return anywhere == 0 ? 0 : 1;
}
