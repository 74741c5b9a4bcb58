// A fixed sequence of calls whose routes are known by arithmetic: other tests run it and read the report, the virtual
// GPUs' log or the exit status. Prints nothing when all results are right. Options: --count N (doubles, default
// 131072), --calls N, --rounds N (so often: duplicate the communicator, use it, free it), --errors-return, --forget (no
// MPI_Comm_free), --share (all ranks on device 0), --reset (resets the device before MPI_Finalize).
#include <mpi.h>

#include <cstdio>
#include <cstring>
#include <string_view>
#include <vector>

#include "gpu.hpp"

namespace {

int rank = 0, size = 0;

int fail(const char* what, int code) {
    char text[MPI_MAX_ERROR_STRING] = {};
    int length = 0;
    MPI_Error_string(code, text, &length);
    std::fprintf(stderr, "rank %d: %s: %s\n", rank, what, text);
    return 3;
}

double element(const gpu::Memory& memory, std::size_t index) {
    const std::vector<std::byte> bytes = memory.read();
    double value = 0;
    std::memcpy(&value, &bytes[index * sizeof value], sizeof value);
    return value;
}

int allreduces(int count, int calls, MPI_Comm comm) {
    const std::vector<double> mine(static_cast<std::size_t>(count), rank + 1.0);
    const gpu::Memory send(gpu::Kind::kDevice, mine.size() * sizeof(double)),
        recv(gpu::Kind::kDevice, mine.size() * sizeof(double));
    gpu::Driver::get().copy(send.at(0), mine.data(), mine.size() * sizeof(double));
    for (int i = 0; i < calls; ++i)
        if (const int rc = MPI_Allreduce(send.at(0), recv.at(0), count, MPI_DOUBLE, MPI_SUM, comm); rc != MPI_SUCCESS)
            return fail("MPI_Allreduce", rc);
    const double sum = size * (size + 1) / 2.0;
    if (element(recv, 0) == sum && element(recv, mine.size() - 1) == sum)
        return 0;
    std::fprintf(stderr, "rank %d: the sum is %g, not %g\n", rank, element(recv, 0), sum);
    return 1;
}

}  // namespace

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int count = 131072, calls = 3, rounds = 1;
    bool forget = false, share = false, reset = false;
    for (int i = 1; i < argc; ++i) {
        const std::string_view option = argv[i];
        if (option == "--count")
            count = std::atoi(argv[++i]);
        else if (option == "--calls")
            calls = std::atoi(argv[++i]);
        else if (option == "--rounds")
            rounds = std::atoi(argv[++i]);
        else if (option == "--errors-return")
            MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
        else if (option == "--forget")
            forget = true;
        else if (option == "--share")
            share = true;
        else if (option == "--reset")
            reset = true;
    }
    gpu::Driver& driver = gpu::Driver::get();
    const int device = share ? 0 : rank % driver.devices;
    driver.use(device);
    int bad = 0;
    for (int round = 0; round < rounds && bad == 0; ++round) {
        MPI_Comm comm = MPI_COMM_NULL;
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);  // inherits the error handler
        bad = allreduces(count, calls, comm);
        if (bad == 3)
            MPI_Abort(MPI_COMM_WORLD, bad);  // the communicator's state is unknown after an error
        if (!forget)
            MPI_Comm_free(&comm);
    }
    if (reset)
        driver.check("cuDevicePrimaryCtxReset", driver.call<int(int)>("cuDevicePrimaryCtxReset_v2")(device));
    MPI_Finalize();
    return bad;
}
