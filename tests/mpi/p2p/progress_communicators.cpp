// Calls that make and end communicators.
#include "progress.hpp"

namespace progress_test {
namespace {

void free_made(Scene& s) {
    if (s.made != MPI_COMM_NULL)
        MPI_Comm_free(&s.made);
}
void duplicate(Scene& s) {
    MPI_Comm_dup(s.comm, &s.made);
}

// All ranks in reverse order.
MPI_Group backwards(Scene& s) {
    MPI_Group all, reversed;
    int range[1][3] = {{s.size - 1, 0, -1}};
    MPI_Comm_group(s.comm, &all);
    MPI_Group_range_incl(all, 1, range, &reversed);
    MPI_Group_free(&all);
    return reversed;
}

void create(Scene& s) {
    MPI_Group group = backwards(s);
    MPI_Comm_create(s.comm, group, &s.made);
    MPI_Group_free(&group);
}
void create_group(Scene& s) {
    MPI_Group group = backwards(s);
    MPI_Comm_create_group(s.comm, group, 5, &s.made);
    MPI_Group_free(&group);
}

// The waiter on one side, all others on the other one.
void intercomm(Scene& s) {
    MPI_Comm side;
    MPI_Comm_split(s.comm, s.waits() ? 0 : 1, s.rank, &side);
    MPI_Intercomm_create(side, 0, s.comm, s.waits() ? (s.waiter == 0 ? 1 : 0) : s.waiter, 6, &s.made);
    MPI_Comm_free(&side);
}
void merge(Scene& s) {
    MPI_Comm merged;
    MPI_Intercomm_merge(s.made, s.waits() ? 1 : 0, &merged);
    MPI_Comm_free(&merged);
}

void cart(Scene& s) {
    const int around = 0;
    MPI_Cart_create(s.comm, 1, &s.size, &around, 1, &s.made);
}
void cart_sub(Scene& s) {
    const int keep = 1;
    MPI_Comm part;
    MPI_Cart_sub(s.made, &keep, &part);
    MPI_Comm_free(&part);
}
void graph(Scene& s) {
    std::vector<int> index, edges;
    for (int i = 0; i < s.size; ++i) {
        index.push_back(i + 1);
        edges.push_back((i + 1) % s.size);
    }
    MPI_Graph_create(s.comm, s.size, index.data(), edges.data(), 0, &s.made);
}
void dist_graph(Scene& s) {
    const int next = (s.rank + 1) % s.size, degree = 1;
    MPI_Dist_graph_create(s.comm, 1, &s.rank, &degree, &next, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &s.made);
}
void dist_graph_adjacent(Scene& s) {
    const int next = (s.rank + 1) % s.size, last = (s.rank + s.size - 1) % s.size;
    MPI_Dist_graph_create_adjacent(s.comm, 1, &last, MPI_UNWEIGHTED, 1, &next, MPI_UNWEIGHTED, MPI_INFO_NULL, 0,
                                   &s.made);
}

const Row kRows[] = {
    {"Comm_dup", duplicate, nullptr, free_made},
    {"Comm_dup_with_info", [](Scene& s) { MPI_Comm_dup_with_info(s.comm, MPI_INFO_NULL, &s.made); }, nullptr,
     free_made},
    {"Comm_idup and Wait",
     [](Scene& s) {
         MPI_Request request;
         MPI_Comm_idup(s.comm, &s.made, &request);
         MPI_Wait(&request, MPI_STATUS_IGNORE);
     },
     nullptr, free_made},
    {"Comm_split", [](Scene& s) { MPI_Comm_split(s.comm, 0, s.size - s.rank, &s.made); }, nullptr, free_made},
    {"Comm_split_type", [](Scene& s) { MPI_Comm_split_type(s.comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &s.made); },
     nullptr, free_made},
    {"Comm_create", create, nullptr, free_made},
    {"Comm_create_group", create_group, nullptr, free_made},
    {"Comm_free", free_made, duplicate},
    {"Comm_disconnect", [](Scene& s) { MPI_Comm_disconnect(&s.made); }, duplicate},
    {"Intercomm_create", intercomm, nullptr, free_made},
    {"Intercomm_merge", merge, intercomm, free_made},
    {"Barrier of an intercommunicator", [](Scene& s) { MPI_Barrier(s.made); }, intercomm, free_made},
    {"Cart_create", cart, nullptr, free_made},
    {"Cart_sub", cart_sub, cart, free_made},
    {"Graph_create", graph, nullptr, free_made},
    {"Dist_graph_create", dist_graph, nullptr, free_made},
    {"Dist_graph_create_adjacent", dist_graph_adjacent, nullptr, free_made},
};

}  // namespace

std::span<const Row> communicator_rows() {
    return kRows;
}

}  // namespace progress_test
