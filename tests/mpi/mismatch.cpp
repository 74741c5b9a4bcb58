// Ranks whose collectives do not match get an MPI error on every rank that names both calls, never a hang; the
// communicator works afterwards. With --board the ranks have shared memory by then, through which they agree. A rank
// with host memory alone does not wait there, so what does not match is found by those who come later: with --abort
// KIND the program makes such a mistake, under MPI's own error handler (mismatch_abort.test).
// clang-format off
// launch: -n 2 --gpus 2
// launch: -n 4 --gpus 4
// launch: -n 2 --gpus 2 -- --board
// launch: -n 4 --gpus 4 -x VGPU_JITTER=5 -- --board
// launch: -n 3 --gpus 3 -x SWITCHYARD_AGREE=mpi -- --board
// test-timeout: 60
// clang-format on

#include <mpi.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "gpu.hpp"

namespace {

constexpr int kCount = 1 << 16;
int rank = 0, size = 0, failures = 0;

void expect(bool good, const char* what, const std::string& detail) {
    if (good)
        return;
    ++failures;
    std::fprintf(stderr, "rank %d: %s: %s\n", rank, what, detail.c_str());
}

std::string text_of(int code) {
    char text[MPI_MAX_ERROR_STRING] = {};
    int length = 0;
    MPI_Error_string(code, text, &length);
    return text;
}

// `call` is a mismatch: each rank must get an error of class MPI_ERR_OTHER whose text has every word.
void mismatch(const char* what, const std::function<int()>& call, const std::vector<std::string>& words) {
    const int code = call();
    int error_class = MPI_SUCCESS;
    MPI_Error_class(code, &error_class);
    const std::string text = text_of(code);
    expect(error_class == MPI_ERR_OTHER, what, "error class " + std::to_string(error_class) + ", text " + text);
    for (const std::string& word : words)
        expect(text.find(word) != std::string::npos, what, "no \"" + word + "\" in: " + text);
}

// As many matching calls as it takes for the ranks to share memory.
void share_memory() {
    std::vector<double> in(kCount, 1.0), out(kCount);
    for (int i = 0; i < 8; ++i)
        MPI_Allreduce(in.data(), out.data(), kCount, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    expect(out.back() == size, "before", "the sum of ones is " + std::to_string(out.back()));
}

// Does not return. The last rank is late.
void mistake(const std::string& kind, void* device) {
    std::vector<double> in(kCount, 1.0), out(kCount);
    if (rank == size - 1)
        std::this_thread::sleep_for(std::chrono::milliseconds(300));
    const bool odd = rank == 0;
    if (kind == "host")  // all ranks have host memory
        odd ? MPI_Bcast(in.data(), kCount, MPI_DOUBLE, 0, MPI_COMM_WORLD)
            : MPI_Allreduce(in.data(), out.data(), kCount, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    else if (kind == "mixed")  // the first rank has
        odd ? MPI_Bcast(in.data(), kCount, MPI_DOUBLE, 0, MPI_COMM_WORLD)
            : MPI_Allreduce(device, device, kCount, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    else if (kind == "begun") {  // the first rank's call does not block
        MPI_Request request = MPI_REQUEST_NULL;
        if (odd)
            MPI_Iallreduce(device, device, kCount, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, &request);
        else
            MPI_Allreduce(in.data(), out.data(), kCount, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
}

}  // namespace

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    gpu::Driver::get().use(rank % gpu::Driver::get().devices);
    const std::string mode = argc > 1 ? argv[1] : "";
    if (!mode.empty())
        share_memory();
    if (mode == "--abort" && argc > 2) {
        const gpu::Memory memory(gpu::Kind::kDevice, kCount * sizeof(double));
        // With an NCCL communicator there, calls that do not block agree too.
        MPI_Allreduce(MPI_IN_PLACE, memory.at(0), kCount, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        mistake(argv[2], memory.at(0));
        std::fprintf(stderr, "rank %d: %s: came back\n", rank, argv[2]);
        MPI_Finalize();
        return 0;
    }
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    {
        const gpu::Memory a(gpu::Kind::kDevice, kCount * sizeof(double)),
            b(gpu::Kind::kDevice, kCount * sizeof(double));
        mismatch("different collectives",
                 [&] {
                     return rank == 0 ? MPI_Bcast(a.at(0), kCount, MPI_DOUBLE, 0, MPI_COMM_WORLD)
                                      : MPI_Allreduce(a.at(0), b.at(0), kCount, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
                 },
                 {"MPI_Bcast", "MPI_Allreduce", "rank 0"});
        mismatch("different roots",
                 [&] { return MPI_Bcast(a.at(0), kCount, MPI_DOUBLE, rank == 0 ? 0 : 1, MPI_COMM_WORLD); },
                 {"root 0", "root 1"});
        mismatch("different operators",
                 [&] {
                     return MPI_Allreduce(a.at(0), b.at(0), kCount, MPI_DOUBLE, rank == 0 ? MPI_MAX : MPI_SUM,
                                          MPI_COMM_WORLD);
                 },
                 {"max", "sum"});
        mismatch("different sizes",
                 [&] {
                     return MPI_Allreduce(a.at(0), b.at(0), rank == 0 ? kCount : kCount / 2, MPI_DOUBLE, MPI_SUM,
                                          MPI_COMM_WORLD);
                 },
                 {std::to_string(kCount * 8), std::to_string(kCount * 4)});
        std::vector<int> counts(static_cast<std::size_t>(size), 8), displs(static_cast<std::size_t>(size), 0);
        mismatch("different roots of a vector form",
                 [&] {
                     return MPI_Gatherv(a.at(0), 8, MPI_DOUBLE, b.at(0), counts.data(), displs.data(), MPI_DOUBLE,
                                        rank == 0 ? 0 : 1, MPI_COMM_WORLD);
                 },
                 {"MPI_Gatherv", "root 0", "root 1"});
        mismatch("different vector forms",
                 [&] {
                     return rank == 0 ? MPI_Alltoallv(a.at(0), counts.data(), displs.data(), MPI_DOUBLE, b.at(0),
                                                      counts.data(), displs.data(), MPI_DOUBLE, MPI_COMM_WORLD)
                                      : MPI_Scatterv(a.at(0), counts.data(), displs.data(), MPI_DOUBLE, b.at(0), 8,
                                                     MPI_DOUBLE, 0, MPI_COMM_WORLD);
                 },
                 {"MPI_Alltoallv", "MPI_Scatterv"});
        mismatch("different sizes to gather",
                 [&] {
                     return MPI_Gather(a.at(0), (rank == 0 ? kCount : kCount / 2) / size, MPI_DOUBLE, b.at(0),
                                       kCount / size, MPI_DOUBLE, 0, MPI_COMM_WORLD);
                 },
                 {std::to_string(kCount / size * 8), std::to_string(kCount / 2 / size * 8)});
        std::vector<double> host(kCount, 1.0);
        const bool host_waits = mode.empty() || std::getenv("SWITCHYARD_AGREE") != nullptr;
        if (host_waits)
            mismatch("a host rank is named too",
                     [&] {
                         return rank == 0
                                    ? MPI_Bcast(host.data(), kCount, MPI_DOUBLE, 0, MPI_COMM_WORLD)
                                    : MPI_Allreduce(a.at(0), b.at(0), kCount, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
                     },
                     {"MPI_Bcast", "MPI_Allreduce"});
        // Once a blocking one has made an NCCL communicator, those that do not block agree too.
        expect(MPI_Allreduce(a.at(0), b.at(0), kCount, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD) == MPI_SUCCESS, "between",
               "error");
        const gpu::Memory c(gpu::Kind::kDevice, kCount * sizeof(double));
        MPI_Request first = MPI_REQUEST_NULL, request = MPI_REQUEST_NULL;
        mismatch("different collectives that do not block",
                 [&] {
                     // One that matches is under way meanwhile, on mixed memory.
                     MPI_Ibcast(rank == 0 ? static_cast<void*>(host.data()) : c.at(0), kCount, MPI_DOUBLE, 0,
                                MPI_COMM_WORLD, &first);
                     rank == 0
                         ? MPI_Ibcast(a.at(0), kCount, MPI_DOUBLE, 0, MPI_COMM_WORLD, &request)
                         : MPI_Iallreduce(a.at(0), b.at(0), kCount, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, &request);
                     return MPI_Wait(&request, MPI_STATUS_IGNORE);
                 },
                 {"rank 0: MPI_Ibcast", "MPI_Iallreduce"});
        expect(MPI_Wait(&first, MPI_STATUS_IGNORE) == MPI_SUCCESS, "a matching one before", "error");
        mismatch("one that does not block with others that do",
                 [&] {
                     if (rank != 0)
                         return MPI_Allreduce(a.at(0), b.at(0), kCount, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
                     MPI_Iallreduce(a.at(0), b.at(0), kCount, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, &request);
                     return MPI_Wait(&request, MPI_STATUS_IGNORE);
                 },
                 {"rank 0: MPI_Iallreduce", ": MPI_Allreduce"});
        mismatch("different sizes of those that do not block",
                 [&] {
                     MPI_Iallreduce(a.at(0), b.at(0), rank == size - 1 ? kCount / 2 : kCount, MPI_DOUBLE, MPI_SUM,
                                    MPI_COMM_WORLD, &request);
                     return MPI_Wait(&request, MPI_STATUS_IGNORE);
                 },
                 {std::to_string(kCount * 8), std::to_string(kCount * 4), "rank " + std::to_string(size - 1) + ": "});
        // A call that matches works as if nothing had been.
        std::vector<std::byte> ones(kCount * sizeof(double));
        std::memcpy(ones.data(), host.data(), ones.size());
        gpu::Driver::get().copy(a.at(0), ones.data(), ones.size());
        expect(MPI_Allreduce(a.at(0), b.at(0), kCount, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD) == MPI_SUCCESS,
               "afterwards", "error");
        const std::vector<std::byte> sums = b.read();
        double last = 0;
        std::memcpy(&last, &sums[sums.size() - sizeof last], sizeof last);
        expect(last == size, "afterwards", "the sum of " + std::to_string(size) + " ones is " + std::to_string(last));
    }
    int all = 0;
    MPI_Allreduce(&failures, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Finalize();
    return all == 0 ? 0 : 1;
}
