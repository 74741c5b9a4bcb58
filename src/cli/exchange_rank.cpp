// switchyard-exchange FILE: the program of which `switchyard doctor` starts two ranks. It is an ordinary MPI program,
// so what fails in it fails in users' programs too. Rank 0 writes to FILE what each rank has found and whether the data
// was right.
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

namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kCount = 1 << 18;  // floats, 1 MiB: by default large enough for NCCL
constexpr std::size_t kBytes = kCount * sizeof(float);
constexpr int kAccountBytes = 4096;

// Calls the driver's function of this name. An error is stored as text in `problem`, and later calls do nothing.
class Driver {
  public:
    explicit Driver(void* library) : library_(library) {}

    template <typename Function, typename... Arguments>
    void call(const char* name, Arguments... arguments) {
        if (!problem.empty())
            return;
        auto* function = reinterpret_cast<Function*>(dlsym(library_, name));
        const int result = function != nullptr ? function(arguments...) : CUDA_ERROR_NOT_FOUND;
        if (result != CUDA_SUCCESS)
            problem = fmt::format("{} gives error {}", name, result);
    }
    std::string problem;

  private:
    void* library_;
};

// The memory that the exchange works on: the device's, or the host's where there is no GPU or Switchyard.
struct Memory {
    Driver driver{nullptr};
    CUdeviceptr device = 0;
    std::string uuid;
    std::vector<float> host = std::vector<float>(kCount);

    void* address() { return device != 0 ? reinterpret_cast<void*>(device) : host.data(); }
    void fill(float value) {
        std::fill(host.begin(), host.end(), value);
        if (device != 0)
            driver.call<decltype(cuMemcpyHtoD)>("cuMemcpyHtoD_v2", device, host.data(), kBytes);
    }
    bool all_are(float value) {
        if (device != 0)
            driver.call<decltype(cuMemcpyDtoH)>("cuMemcpyDtoH_v2", host.data(), device, kBytes);
        return driver.problem.empty() && std::all_of(host.begin(), host.end(), [=](float x) { return x == value; });
    }
};

void take_device(Memory& memory, int local_rank) {
    void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    if (library == nullptr)
        return;
    Driver driver(library);
    int devices = 0;
    CUdevice device = 0;
    CUcontext context = nullptr;
    CUuuid uuid{};
    driver.call<decltype(cuInit)>("cuInit", 0u);
    driver.call<decltype(cuDeviceGetCount)>("cuDeviceGetCount", &devices);
    if (driver.problem.empty() && devices > 0) {
        driver.call<decltype(cuDeviceGet)>("cuDeviceGet", &device, local_rank % devices);
        driver.call<decltype(cuDeviceGetUuid)>("cuDeviceGetUuid", &uuid, device);
        driver.call<decltype(cuDevicePrimaryCtxRetain)>("cuDevicePrimaryCtxRetain", &context, device);
        driver.call<decltype(cuCtxSetCurrent)>("cuCtxSetCurrent", context);
        driver.call<decltype(cuMemAlloc)>("cuMemAlloc_v2", &memory.device, kBytes);
        for (const char byte : uuid.bytes)
            memory.uuid += fmt::format("{:02x}", static_cast<unsigned char>(byte));
    }
    memory.driver = driver;
    if (!driver.problem.empty())
        memory.device = 0;
}

std::string shim_in_this_process() {
    Dl_info info;
    void* address = dlsym(RTLD_DEFAULT, "MPIX_Switchyard_version");
    return address != nullptr && dladdr(address, &info) != 0 && info.dli_fname != nullptr ? info.dli_fname : "";
}

// A sum over both ranks, and a message from each to the other.
bool exchange(Memory& memory, int rank) {
    const auto mine = static_cast<float>(rank + 1);
    const auto theirs = static_cast<float>(2 - rank);
    constexpr int kElements = static_cast<int>(kCount);
    memory.fill(mine);
    MPI_Allreduce(MPI_IN_PLACE, memory.address(), kElements, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    const bool summed = memory.all_are(3);
    memory.fill(mine);
    MPI_Sendrecv_replace(memory.address(), kElements, MPI_FLOAT, 1 - rank, 0, 1 - rank, 0, MPI_COMM_WORLD,
                         MPI_STATUS_IGNORE);
    return memory.all_are(theirs) && summed;
}

Json account(int rank) {
    std::array<char, MPI_MAX_PROCESSOR_NAME> host{};
    int length = 0;
    MPI_Get_processor_name(host.data(), &length);
    const char* local_rank = std::getenv("OMPI_COMM_WORLD_LOCAL_RANK");
    const std::string shim = shim_in_this_process();
    Memory memory;
    if (!shim.empty())  // without it MPI would read device memory itself, and crash
        take_device(memory, local_rank != nullptr ? std::atoi(local_rank) : rank);
    const bool right = exchange(memory, rank);
    return {{"host", host.data()},
            {"switchyard", shim},
            {"device", memory.uuid},
            {"right", right},
            {"driver", memory.driver.problem}};
}

}  // namespace

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    int rank = 0;
    int ranks = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (ranks != 2 || argc != 2)
        MPI_Abort(MPI_COMM_WORLD, 2);
    std::string text = account(rank).dump(-1, ' ', false, Json::error_handler_t::replace);
    text.resize(kAccountBytes);
    std::string all(rank == 0 ? 2 * text.size() : 0, '\0');
    MPI_Gather(text.data(), kAccountBytes, MPI_CHAR, all.data(), kAccountBytes, MPI_CHAR, 0, MPI_COMM_WORLD);
    if (rank == 0) {
        std::ofstream file(argv[1]);
        file << "[" << all.c_str() << "," << all.c_str() + kAccountBytes << "]\n";
    }
    MPI_Finalize();
    return 0;
}
