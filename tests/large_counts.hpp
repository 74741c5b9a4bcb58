// The collectives of tests/collective_forms.hpp in their large-count forms (MPI 4.0 section 2.5.8), which Open MPI 4.1
// and 5.0 do not have: what MPI 4.1's mpi.h says of them, and arrays of int made into theirs. Test programs only.
#pragma once

#include <mpi.h>

#include <list>
#include <type_traits>
#include <vector>

// X(NAME, name after MPI_I, PARAMETERS, ARGUMENTS) for each; the parameters are those that the three forms share.
#define SWY_LIST(...) __VA_ARGS__
#define LARGE_ONE_BLOCK (const void* s, MPI_Count n, MPI_Datatype t, void* r, MPI_Count m, MPI_Datatype u, MPI_Comm c)
#define LARGE_V                                                                                            \
    (const void* s, const MPI_Count n[], const MPI_Aint d[], MPI_Datatype t, void* r, const MPI_Count m[], \
     const MPI_Aint e[], MPI_Datatype u, MPI_Comm c)
#define LARGE_W                                                                                                    \
    (const void* s, const MPI_Count n[], const MPI_Aint d[], const MPI_Datatype t[], void* r, const MPI_Count m[], \
     const MPI_Aint e[], const MPI_Datatype u[], MPI_Comm c)
#define LARGE_TO_V                                                                                                 \
    (const void* s, MPI_Count n, MPI_Datatype t, void* r, const MPI_Count m[], const MPI_Aint e[], MPI_Datatype u, \
     MPI_Comm c)
#define LARGE_REDUCTION (const void* s, void* r, MPI_Count n, MPI_Datatype t, MPI_Op o, MPI_Comm c)
#define LARGE_COUNT_COLLECTIVES(X)                                                                                   \
    X(Bcast, bcast, (void* s, MPI_Count n, MPI_Datatype t, int root, MPI_Comm c), (s, n, t, root, c))                \
    X(Gather, gather,                                                                                                \
      (const void* s, MPI_Count n, MPI_Datatype t, void* r, MPI_Count m, MPI_Datatype u, int root, MPI_Comm c),      \
      (s, n, t, r, m, u, root, c))                                                                                   \
    X(Gatherv, gatherv,                                                                                              \
      (const void* s, MPI_Count n, MPI_Datatype t, void* r, const MPI_Count m[], const MPI_Aint e[], MPI_Datatype u, \
       int root, MPI_Comm c),                                                                                        \
      (s, n, t, r, m, e, u, root, c))                                                                                \
    X(Scatter, scatter,                                                                                              \
      (const void* s, MPI_Count n, MPI_Datatype t, void* r, MPI_Count m, MPI_Datatype u, int root, MPI_Comm c),      \
      (s, n, t, r, m, u, root, c))                                                                                   \
    X(Scatterv, scatterv,                                                                                            \
      (const void* s, const MPI_Count n[], const MPI_Aint d[], MPI_Datatype t, void* r, MPI_Count m, MPI_Datatype u, \
       int root, MPI_Comm c),                                                                                        \
      (s, n, d, t, r, m, u, root, c))                                                                                \
    X(Allgather, allgather, LARGE_ONE_BLOCK, (s, n, t, r, m, u, c))                                                  \
    X(Allgatherv, allgatherv, LARGE_TO_V, (s, n, t, r, m, e, u, c))                                                  \
    X(Alltoall, alltoall, LARGE_ONE_BLOCK, (s, n, t, r, m, u, c))                                                    \
    X(Alltoallv, alltoallv, LARGE_V, (s, n, d, t, r, m, e, u, c))                                                    \
    X(Alltoallw, alltoallw, LARGE_W, (s, n, d, t, r, m, e, u, c))                                                    \
    X(Reduce, reduce, (const void* s, void* r, MPI_Count n, MPI_Datatype t, MPI_Op o, int root, MPI_Comm c),         \
      (s, r, n, t, o, root, c))                                                                                      \
    X(Allreduce, allreduce, LARGE_REDUCTION, (s, r, n, t, o, c))                                                     \
    X(Reduce_scatter, reduce_scatter,                                                                                \
      (const void* s, void* r, const MPI_Count n[], MPI_Datatype t, MPI_Op o, MPI_Comm c), (s, r, n, t, o, c))       \
    X(Reduce_scatter_block, reduce_scatter_block, LARGE_REDUCTION, (s, r, n, t, o, c))                               \
    X(Scan, scan, LARGE_REDUCTION, (s, r, n, t, o, c))                                                               \
    X(Exscan, exscan, LARGE_REDUCTION, (s, r, n, t, o, c))                                                           \
    X(Neighbor_allgather, neighbor_allgather, LARGE_ONE_BLOCK, (s, n, t, r, m, u, c))                                \
    X(Neighbor_allgatherv, neighbor_allgatherv, LARGE_TO_V, (s, n, t, r, m, e, u, c))                                \
    X(Neighbor_alltoall, neighbor_alltoall, LARGE_ONE_BLOCK, (s, n, t, r, m, u, c))                                  \
    X(Neighbor_alltoallv, neighbor_alltoallv, LARGE_V, (s, n, d, t, r, m, e, u, c))                                  \
    X(Neighbor_alltoallw, neighbor_alltoallw, LARGE_W, (s, n, d, t, r, m, e, u, c))

#pragma GCC visibility push(default)
extern "C" {
#define LARGE_DECLARE(name, small, parameters, arguments)            \
    int MPI_##name##_c(SWY_LIST parameters);                         \
    int MPI_I##small##_c(SWY_LIST parameters, MPI_Request* request); \
    int MPI_##name##_init_c(SWY_LIST parameters, MPI_Info info, MPI_Request* request);
LARGE_COUNT_COLLECTIVES(LARGE_DECLARE)
#undef LARGE_DECLARE
}
#pragma GCC visibility pop

namespace large {

// The number of entries in the arrays of a collective on `comm`: both lists of neighbours are equally long in the
// tests.
inline int entries(MPI_Comm comm, bool own_group) {
    int inter = 0, count = 0, topology = MPI_UNDEFINED, out = 0, weighted = 0;
    MPI_Comm_test_inter(comm, &inter);
    if (inter == 0)
        MPI_Topo_test(comm, &topology);
    if (topology == MPI_DIST_GRAPH)
        MPI_Dist_graph_neighbors_count(comm, &count, &out, &weighted);
    else if (inter != 0 && !own_group)
        MPI_Comm_remote_size(comm, &count);
    else
        MPI_Comm_size(comm, &count);
    return count;
}

// Numbers of another type than the program's. They are never freed: a request may refer to them.
template <typename To, typename From>
const To* converted(const From* numbers, int entries) {
    static std::list<std::vector<To>> all;
    if (numbers == nullptr)
        return nullptr;
    return all.emplace_back(numbers, numbers + entries).data();
}

// A pointer to int among the arguments: a buffer, or an array that becomes what the function takes.
struct Ints {
    const int* ints;
    int entries;
    operator const void*() const { return ints; }
    operator void*() const { return const_cast<int*>(ints); }
    operator const MPI_Count*() const { return converted<MPI_Count>(ints, entries); }
    operator const MPI_Aint*() const { return converted<MPI_Aint>(ints, entries); }
};

template <typename A>
auto argument(A given, [[maybe_unused]] int entries) {
    if constexpr (std::is_same_v<A, int*> || std::is_same_v<A, const int*>)
        return Ints{given, entries};
    else
        return given;
}

inline MPI_Comm comm_of() {
    return MPI_COMM_NULL;
}
template <typename First, typename... Rest>
MPI_Comm comm_of(First first, Rest... rest) {
    if constexpr (std::is_same_v<First, MPI_Comm>)
        return first;
    else
        return comm_of(rest...);
}

}  // namespace large
