// A failure of the driver in the middle of a staged call is an MPI error that names the call and the cause, harms
// nothing and leaves the next call unharmed. Page-locked memory that is not to be had is no failure.
// clang-format off
// launch: -n 1 --gpus 1 -x VGPU_FAULTS=cuMemcpyAsync@3=CUDA_ERROR_ECC_UNCORRECTABLE -- 1 CUDA_ERROR_ECC_UNCORRECTABLE
// launch: -n 1 --gpus 1 -x VGPU_FAULTS=cuMemcpyAsync@4=CUDA_ERROR_ECC_UNCORRECTABLE -- 1 CUDA_ERROR_ECC_UNCORRECTABLE
// launch: -n 1 --gpus 1 -x VGPU_FAULTS=cuStreamCreate@1=CUDA_ERROR_OUT_OF_MEMORY -- 1 CUDA_ERROR_OUT_OF_MEMORY
// launch: -n 1 --gpus 1 -x VGPU_FAULTS=cuMemHostRegister@1=CUDA_ERROR_OUT_OF_MEMORY -- 0
// launch: -n 1 --gpus 1 -x VGPU_FAULTS=cuMemcpyAsync@2=hang -x SWITCHYARD_TIMEOUT=0.5 -- 1 SWITCHYARD_TIMEOUT
// clang-format on
#include <mpi.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "../gpu.hpp"

namespace {

constexpr int kCount = 100, kRounds = 6;

int failed = 0;
void expect(bool good, int round, const std::string& what) {
    if (good)
        return;
    std::fprintf(stderr, "round %d: %s\n", round, what.c_str());
    ++failed;
}

std::vector<std::byte> filled(int value) {
    return std::vector<std::byte>(kCount * sizeof(int), static_cast<std::byte>(value));
}

std::string text_of(int code) {
    char text[MPI_MAX_ERROR_STRING];
    int length = 0;
    MPI_Error_string(code, text, &length);
    return text;
}

}  // namespace

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    const int errors_wanted = argc > 1 ? std::atoi(argv[1]) : 0;
    const std::string cause = argc > 2 ? argv[2] : "";
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    gpu::Driver::get().use(0);
    int errors = 0;
    for (int round = 0; round < kRounds; ++round) {
        // Never freed: with work under way that never ends, the driver would wait for it.
        auto& send = *new gpu::Memory(gpu::Kind::kDevice, filled(round + 1));
        auto& recv = *new gpu::Memory(gpu::Kind::kDevice, filled(100));
        const int code = MPI_Allreduce(send.at(0), recv.at(0), kCount, MPI_INT, MPI_MAX, MPI_COMM_SELF);
        if (code == MPI_SUCCESS) {
            expect(recv.read() == filled(round + 1), round, "wrong result");
        } else {
            ++errors;
            int error_class = 0;
            MPI_Error_class(code, &error_class);
            expect(error_class == MPI_ERR_OTHER, round, "error class " + std::to_string(error_class));
            const std::string text = text_of(code);
            expect(text.find("MPI_Allreduce") != std::string::npos && text.find(cause) != std::string::npos, round,
                   text);
            if (cause == "SWITCHYARD_TIMEOUT")
                break;
            expect(recv.read() == filled(100), round, "the receive buffer was written");
        }
    }
    expect(errors == errors_wanted, kRounds, std::to_string(errors) + " errors");
    MPI_Finalize();
    return failed > 0 ? 1 : 0;
}
