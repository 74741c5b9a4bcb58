// Managed memory that is at home on the host, in processes that use two devices each: the one of rank r on the first
// domain of tests/topology/domains.xml, near NUMA node 1, and the one on the second domain, near node 0.
// tests/mpi/near.test runs it and looks at which device each call was on. Prints the NUMA node of its memory. The
// argument says where the result goes: "managed", to memory of the same kind; "device", to the rank's device near
// node 1.
#include <dlfcn.h>
#include <mpi.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "gpu.hpp"

namespace {

constexpr int kCount = 65536;
constexpr std::size_t kBytes = kCount * sizeof(double);
constexpr int kPreferredLocation = 3;  // CU_MEM_ADVISE_SET_PREFERRED_LOCATION
constexpr int kCpu = -1;               // CU_DEVICE_CPU

int failures = 0;

void expect(bool good, const char* what) {
    if (good)
        return;
    ++failures;
    std::fprintf(stderr, "near: %s\n", what);
}

double* managed_on_host() {
    gpu::Driver& driver = gpu::Driver::get();
    void* memory = driver.allocate(gpu::Kind::kManaged, kBytes);
    gpu::Driver::check("cuMemAdvise", driver.call<int(void*, std::size_t, int, int)>("cuMemAdvise")(
                                          memory, kBytes, kPreferredLocation, kCpu));
    return static_cast<double*>(memory);
}

int node_of(void* address) {
    int node = -1;
    return syscall(SYS_move_pages, 0, 1UL, &address, nullptr, &node, 0) == 0 && node >= 0 ? node : -1;
}

// By the kernel's word for where host memory is.
void check_near(int node) {
    using Near = int (*)(const void*, int, const int*, int*);
    const auto near = reinterpret_cast<Near>(dlsym(RTLD_DEFAULT, "MPIX_Device_near"));
    if (near == nullptr)
        return expect(false, "the library does not have MPIX_Device_near");
    std::vector<char> host(kBytes, 'x');
    const int list[] = {1, 0, 3, 2};
    int device = -77;
    expect(near(host.data(), 4, list, &device) == MPI_SUCCESS, "returns MPI_SUCCESS");
    expect(device == (node == 0 ? 3 : 1), "the first of the list that is near the node");
    expect(near(host.data(), 0, nullptr, &device) == MPI_SUCCESS && device == (node == 0 ? 2 : 0),
           "of all devices the first that is near the node");
    expect(near(host.data(), 2, list, &device) == MPI_SUCCESS && device == 1, "the first of two that are equally near");
    void* own = gpu::Driver::get().allocate(gpu::Kind::kDevice, kBytes);
    expect(near(own, 4, list, &device) == MPI_SUCCESS, "returns MPI_SUCCESS for device memory");
    gpu::Driver::get().release(gpu::Kind::kDevice, own);
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    expect(device == rank, "device memory has its device");
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    int error_class = MPI_SUCCESS;
    MPI_Error_class(near(host.data(), 4, nullptr, &device), &error_class);
    expect(error_class == MPI_ERR_ARG, "refuses a list that is not there");
    MPI_Error_class(near(host.data(), -1, list, &device), &error_class);
    expect(error_class == MPI_ERR_COUNT, "refuses a negative number");
}

}  // namespace

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    // After MPI_Init: Open MPI would take the machine in the file for its own.
    setenv("HWLOC_XMLFILE", std::getenv("VGPU_TOPOLOGY"), 1);
    int rank = 0;
    int size = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    gpu::Driver& driver = gpu::Driver::get();
    driver.use(2 + rank);
    driver.use(rank);
    double* from = managed_on_host();
    for (int i = 0; i < kCount; ++i)
        from[i] = rank + i;
    const int node = node_of(from);
    if (rank == 0)
        std::printf("node %d\n", node);
    const bool to_device = argc > 1 && std::string_view(argv[1]) == "device";
    void* to = to_device ? driver.allocate(gpu::Kind::kDevice, kBytes) : managed_on_host();
    MPI_Allreduce(from, to, kCount, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    std::vector<double> result(kCount);
    driver.copy(result.data(), to, kBytes);
    for (int i = 0; i < kCount; ++i)
        if (result[static_cast<std::size_t>(i)] != size * i + size * (size - 1) / 2.0) {
            expect(false, "the sum");
            break;
        }
    check_near(node);
    driver.release(to_device ? gpu::Kind::kDevice : gpu::Kind::kManaged, to);
    driver.release(gpu::Kind::kManaged, from);
    MPI_Finalize();
    return failures == 0 ? 0 : 1;
}
