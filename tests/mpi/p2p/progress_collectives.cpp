// Collective calls in which the waiter cannot be done before the other has come.
#include <algorithm>
#include <numeric>

#include "../gpu.hpp"
#include "progress.hpp"

namespace progress_test {
namespace {

std::vector<int> ones(const Scene& s) {
    return std::vector<int>(static_cast<std::size_t>(s.size), 1);
}
std::vector<int> places(const Scene& s) {
    std::vector<int> all(static_cast<std::size_t>(s.size));
    std::iota(all.begin(), all.end(), 0);
    return all;
}
std::vector<int> offsets(const Scene& s) {  // in bytes
    std::vector<int> all = places(s);
    for (int& place : all)
        place *= static_cast<int>(sizeof(int));
    return all;
}
std::vector<MPI_Datatype> types(const Scene& s) {
    return std::vector<MPI_Datatype>(static_cast<std::size_t>(s.size), MPI_INT);
}

// The waiter last: a prefix is complete there when all others have come.
void order(Scene& s) {
    MPI_Comm_split(s.comm, 0, s.waits() ? s.size : s.rank, &s.made);
}
void ring(Scene& s) {
    const int around = 1;
    MPI_Cart_create(s.comm, 1, &s.size, &around, 0, &s.made);
}
void free_made(Scene& s) {
    MPI_Comm_free(&s.made);
}

void alltoallw(Scene& s) {
    MPI_Alltoallw(s.out.data(), ones(s).data(), offsets(s).data(), types(s).data(), s.in.data(), ones(s).data(),
                  offsets(s).data(), types(s).data(), s.comm);
}
void neighbor_alltoallw(Scene& s) {
    const int one[] = {1, 1};
    const MPI_Aint at[] = {0, 4};
    const MPI_Datatype type[] = {MPI_INT, MPI_INT};
    MPI_Neighbor_alltoallw(s.out.data(), one, at, type, s.in.data(), one, at, type, s.made);
}
constexpr int kTwo[] = {1, 1}, kTwoPlaces[] = {0, 1};

// Of device memory, and large: the collective is agreed on and carried while the message is.
template <typename Call>
void on_device(Scene& s, int count, Call call) {
    const gpu::Kind kind = s.device_here ? gpu::Kind::kDevice : gpu::Kind::kHost;
    const std::vector<std::byte> content(static_cast<std::size_t>(count) * sizeof(int));
    const gpu::Memory from(kind, content), to(kind, content);
    call(from.at(0), to.at(0));
}
constexpr int kLarge = 100000;

const Row kRows[] = {
    {"Barrier", [](Scene& s) { MPI_Barrier(s.comm); }},
    {"Bcast", [](Scene& s) { MPI_Bcast(s.in.data(), 4, MPI_INT, s.other, s.comm); }},
    {"Reduce", [](Scene& s) { MPI_Reduce(s.out.data(), s.in.data(), 4, MPI_INT, MPI_SUM, s.waiter, s.comm); }},
    {"Allreduce", [](Scene& s) { MPI_Allreduce(s.out.data(), s.in.data(), 4, MPI_INT, MPI_SUM, s.comm); }},
    {"Gather", [](Scene& s) { MPI_Gather(s.out.data(), 1, MPI_INT, s.in.data(), 1, MPI_INT, s.waiter, s.comm); }},
    {"Gatherv",
     [](Scene& s) {
         MPI_Gatherv(s.out.data(), 1, MPI_INT, s.in.data(), ones(s).data(), places(s).data(), MPI_INT, s.waiter,
                     s.comm);
     }},
    {"Scatter", [](Scene& s) { MPI_Scatter(s.out.data(), 1, MPI_INT, s.in.data(), 1, MPI_INT, s.other, s.comm); }},
    {"Scatterv",
     [](Scene& s) {
         MPI_Scatterv(s.out.data(), ones(s).data(), places(s).data(), MPI_INT, s.in.data(), 1, MPI_INT, s.other,
                      s.comm);
     }},
    {"Allgather", [](Scene& s) { MPI_Allgather(s.out.data(), 1, MPI_INT, s.in.data(), 1, MPI_INT, s.comm); }},
    {"Allgatherv",
     [](Scene& s) {
         MPI_Allgatherv(s.out.data(), 1, MPI_INT, s.in.data(), ones(s).data(), places(s).data(), MPI_INT, s.comm);
     }},
    {"Alltoall", [](Scene& s) { MPI_Alltoall(s.out.data(), 1, MPI_INT, s.in.data(), 1, MPI_INT, s.comm); }},
    {"Alltoallv",
     [](Scene& s) {
         MPI_Alltoallv(s.out.data(), ones(s).data(), places(s).data(), MPI_INT, s.in.data(), ones(s).data(),
                       places(s).data(), MPI_INT, s.comm);
     }},
    {"Alltoallw", alltoallw},
    {"Reduce_scatter",
     [](Scene& s) { MPI_Reduce_scatter(s.out.data(), s.in.data(), ones(s).data(), MPI_INT, MPI_SUM, s.comm); }},
    {"Reduce_scatter_block",
     [](Scene& s) { MPI_Reduce_scatter_block(s.out.data(), s.in.data(), 1, MPI_INT, MPI_SUM, s.comm); }},
    {"Scan", [](Scene& s) { MPI_Scan(s.out.data(), s.in.data(), 4, MPI_INT, MPI_SUM, s.made); }, order, free_made},
    {"Exscan", [](Scene& s) { MPI_Exscan(s.out.data(), s.in.data(), 4, MPI_INT, MPI_SUM, s.made); }, order, free_made},
    {"Neighbor_allgather",
     [](Scene& s) { MPI_Neighbor_allgather(s.out.data(), 1, MPI_INT, s.in.data(), 1, MPI_INT, s.made); }, ring,
     free_made},
    {"Neighbor_allgatherv",
     [](Scene& s) {
         MPI_Neighbor_allgatherv(s.out.data(), 1, MPI_INT, s.in.data(), kTwo, kTwoPlaces, MPI_INT, s.made);
     },
     ring, free_made},
    {"Neighbor_alltoall",
     [](Scene& s) { MPI_Neighbor_alltoall(s.out.data(), 1, MPI_INT, s.in.data(), 1, MPI_INT, s.made); }, ring,
     free_made},
    {"Neighbor_alltoallv",
     [](Scene& s) {
         MPI_Neighbor_alltoallv(s.out.data(), kTwo, kTwoPlaces, MPI_INT, s.in.data(), kTwo, kTwoPlaces, MPI_INT,
                                s.made);
     },
     ring, free_made},
    {"Neighbor_alltoallw", neighbor_alltoallw, ring, free_made},
    {"Ibarrier and Wait",
     [](Scene& s) {
         MPI_Request request;
         MPI_Ibarrier(s.comm, &request);
         MPI_Wait(&request, MPI_STATUS_IGNORE);
     }},
    {"Iallreduce and Test",
     [](Scene& s) {
         MPI_Request request;
         MPI_Iallreduce(s.out.data(), s.in.data(), 4, MPI_INT, MPI_SUM, s.comm, &request);
         for (int done = 0; done == 0;)
             MPI_Test(&request, &done, MPI_STATUS_IGNORE);
     }},
    {"Allreduce of small device memory",
     [](Scene& s) {
         on_device(s, 100, [&](void* a, void* b) { MPI_Allreduce(a, b, 100, MPI_INT, MPI_SUM, s.comm); });
     }},
    {"Allreduce of large device memory",
     [](Scene& s) {
         on_device(s, kLarge, [&](void* a, void* b) { MPI_Allreduce(a, b, kLarge, MPI_INT, MPI_SUM, s.comm); });
     }},
    {"Bcast of large device memory",
     [](Scene& s) { on_device(s, kLarge, [&](void* a, void*) { MPI_Bcast(a, kLarge, MPI_INT, s.other, s.comm); }); }},
    {"Gather of large device memory",
     [](Scene& s) {
         on_device(s, kLarge * s.size,
                   [&](void* a, void* b) { MPI_Gather(a, kLarge, MPI_INT, b, kLarge, MPI_INT, s.waiter, s.comm); });
     }},
};

}  // namespace

std::span<const Row> collective_rows() {
    return kRows;
}

}  // namespace progress_test
