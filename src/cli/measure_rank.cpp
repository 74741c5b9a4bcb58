// switchyard-measure FILE LARGEST: the program that `switchyard tune` starts under mpirun, an MPI program like any
// other. Times collectives on device memory over MPI_COMM_WORLD, size by size; rank 0 writes to FILE a line for each,
// as it goes: first {"gpu": ..., "nodes": ..., "virtual": ...} or {"problem": ...}, then {"call": ..., "bytes": ...,
// "seconds": ...}.
#include <cuda.h>
#include <dlfcn.h>
#include <fmt/format.h>
#include <mpi.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/measured_calls.hpp"

namespace {

using Json = nlohmann::ordered_json;

constexpr int kNameBytes = 256;
constexpr double kEnough = 0.02;  // seconds of one size, after which it is not repeated any more
constexpr int kMost = 200, kLeast = 5;

struct Gpu {
    CUdeviceptr send = 0, receive = 0;
    std::array<char, kNameBytes> name{};
    std::string problem;
    bool is_virtual = false;
};

// Calls the driver's function of this name. The first error is stored, and later calls do nothing.
template <typename Function, typename... Arguments>
void call(void* library, Gpu& gpu, const char* name, Arguments... arguments) {
    if (!gpu.problem.empty())
        return;
    auto* function = reinterpret_cast<Function*>(dlsym(library, name));
    const int result = function != nullptr ? function(arguments...) : CUDA_ERROR_NOT_FOUND;
    if (result != CUDA_SUCCESS)
        gpu.problem = fmt::format("{} gives error {}", name, result);
}

Gpu take_gpu(int local_rank, std::size_t bytes) {
    Gpu gpu;
    void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    if (library == nullptr) {
        gpu.problem = "there is no GPU driver (libcuda.so.1)";
        return gpu;
    }
    gpu.is_virtual = dlsym(library, "vgpu_alias") != nullptr;
    int devices = 0;
    CUdevice device = 0;
    CUcontext context = nullptr;
    call<decltype(cuInit)>(library, gpu, "cuInit", 0u);
    call<decltype(cuDeviceGetCount)>(library, gpu, "cuDeviceGetCount", &devices);
    if (gpu.problem.empty() && local_rank >= devices)
        gpu.problem = fmt::format("there are {} GPUs for more ranks of the node: NCCL needs one for each", devices);
    call<decltype(cuDeviceGet)>(library, gpu, "cuDeviceGet", &device, local_rank);
    call<decltype(cuDeviceGetName)>(library, gpu, "cuDeviceGetName", gpu.name.data(), kNameBytes - 1, device);
    call<decltype(cuDevicePrimaryCtxRetain)>(library, gpu, "cuDevicePrimaryCtxRetain", &context, device);
    call<decltype(cuCtxSetCurrent)>(library, gpu, "cuCtxSetCurrent", context);
    call<decltype(cuMemAlloc)>(library, gpu, "cuMemAlloc_v2", &gpu.send, bytes);
    call<decltype(cuMemAlloc)>(library, gpu, "cuMemAlloc_v2", &gpu.receive, bytes);
    call<decltype(cuMemsetD8)>(library, gpu, "cuMemsetD8_v2", gpu.send, 0, bytes);
    return gpu;
}

// Finds this process's rank, its rank on the node, and the number of ranks and nodes.
struct Position {
    int rank = 0, ranks = 0, local_rank = 0, nodes = 0;
};
Position find_position() {
    Position position;
    MPI_Comm node = MPI_COMM_NULL;
    MPI_Comm_rank(MPI_COMM_WORLD, &position.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &position.ranks);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, position.rank, MPI_INFO_NULL, &node);
    MPI_Comm_rank(node, &position.local_rank);
    const int first = position.local_rank == 0 ? 1 : 0;
    MPI_Allreduce(&first, &position.nodes, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Comm_free(&node);
    return position;
}

// Makes the first line that rank 0 writes. All ranks return the same answer to whether there is a problem.
Json introduce(const Gpu& gpu, const Position& position) {
    std::array<char, kNameBytes> mine{};
    gpu.problem.copy(mine.data(), mine.size() - 1);
    std::vector<char> problems(kNameBytes * static_cast<std::size_t>(position.ranks));
    std::vector<char> names(problems.size());
    MPI_Allgather(mine.data(), kNameBytes, MPI_CHAR, problems.data(), kNameBytes, MPI_CHAR, MPI_COMM_WORLD);
    MPI_Allgather(gpu.name.data(), kNameBytes, MPI_CHAR, names.data(), kNameBytes, MPI_CHAR, MPI_COMM_WORLD);
    for (int rank = 0; rank < position.ranks; ++rank) {
        const std::size_t at = kNameBytes * static_cast<std::size_t>(rank);
        if (problems[at] != '\0')
            return {{"problem", fmt::format("rank {}: {}", rank, &problems[at])}};
        if (std::string_view(&names[at]) != names.data())
            return {{"problem", fmt::format("rank {} has a {}, rank 0 a {}: a table is for GPUs of one model", rank,
                                            &names[at], names.data())}};
    }
    return {{"gpu", names.data()}, {"nodes", position.nodes}, {"virtual", gpu.is_virtual}};
}

// Makes one call of the kind. `bytes` is the size that is compared with the threshold: for calls with a block for each
// rank, all blocks of a rank's buffer together.
void make(swy::cli::Measured kind, const Gpu& gpu, std::size_t bytes, int ranks) {
    using swy::cli::Measured;
    const void* send = reinterpret_cast<const void*>(gpu.send);
    void* receive = reinterpret_cast<void*>(gpu.receive);
    const int all = static_cast<int>(bytes / sizeof(float));
    const int block = all / ranks;
    switch (kind) {
        case Measured::kAllreduce:
            MPI_Allreduce(send, receive, all, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
            break;
        case Measured::kReduce:
            MPI_Reduce(send, receive, all, MPI_FLOAT, MPI_SUM, 0, MPI_COMM_WORLD);
            break;
        case Measured::kBcast:
            MPI_Bcast(receive, all, MPI_FLOAT, 0, MPI_COMM_WORLD);
            break;
        case Measured::kAllgather:
            MPI_Allgather(send, block, MPI_FLOAT, receive, block, MPI_FLOAT, MPI_COMM_WORLD);
            break;
        case Measured::kGather:
            MPI_Gather(send, block, MPI_FLOAT, receive, block, MPI_FLOAT, 0, MPI_COMM_WORLD);
            break;
        case Measured::kScatter:
            MPI_Scatter(send, block, MPI_FLOAT, receive, block, MPI_FLOAT, 0, MPI_COMM_WORLD);
            break;
        case Measured::kAlltoall:
            MPI_Alltoall(send, block, MPI_FLOAT, receive, block, MPI_FLOAT, MPI_COMM_WORLD);
            break;
        case Measured::kReduceScatter:
            MPI_Reduce_scatter_block(send, receive, block, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
            break;
    }
}

// Returns the median of the slowest rank's times. All ranks have these times, so all stop after the same number of
// calls.
double time_of(swy::cli::Measured kind, const Gpu& gpu, std::size_t bytes, const Position& position) {
    std::vector<double> times;
    double sum = 0;
    int more = 1;
    for (make(kind, gpu, bytes, position.ranks); more != 0;) {
        MPI_Barrier(MPI_COMM_WORLD);
        const double begin = MPI_Wtime();
        make(kind, gpu, bytes, position.ranks);
        const double mine = MPI_Wtime() - begin;
        double slowest = 0;
        MPI_Allreduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
        times.push_back(slowest);
        sum += slowest;
        more = times.size() < kLeast || (sum < kEnough && times.size() < kMost) ? 1 : 0;
    }
    std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2), times.end());
    return times[times.size() / 2];
}

void measure(const Gpu& gpu, const Position& position, std::size_t largest, std::ofstream& file) {
    for (const auto& [kind, name] : swy::cli::kMeasuredCalls)
        for (std::size_t bytes = swy::cli::kSmallestMeasured; bytes <= largest; bytes *= 2) {
            // The size is rounded up to whole blocks, one for each rank.
            const std::size_t block = sizeof(float) * static_cast<std::size_t>(position.ranks);
            const double seconds = time_of(kind, gpu, (bytes + block - 1) / block * block, position);
            if (position.rank == 0)
                file << Json{{"call", name}, {"bytes", bytes}, {"seconds", seconds}}.dump() << std::endl;
        }
}

}  // namespace

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    const Position position = find_position();
    if (argc != 3 || dlsym(RTLD_DEFAULT, "MPIX_Switchyard_version") == nullptr)
        MPI_Abort(MPI_COMM_WORLD, 2);  // without it MPI would read device memory itself
    const std::size_t largest = std::strtoull(argv[2], nullptr, 10);
    const Gpu gpu = take_gpu(position.local_rank, largest + sizeof(float) * static_cast<std::size_t>(position.ranks));
    std::ofstream file;
    if (position.rank == 0)
        file.open(argv[1]);
    const Json head = introduce(gpu, position);
    if (position.rank == 0)
        file << head.dump(-1, ' ', false, Json::error_handler_t::replace) << std::endl;
    if (!head.contains("problem"))
        measure(gpu, position, largest, file);
    MPI_Finalize();
    return 0;
}
