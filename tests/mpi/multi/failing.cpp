// A failure of NCCL on one device of one rank is an MPI error on all ranks whose devices wait for it, in calls that
// block and calls that do not; the next call makes a new NCCL communicator. The virtual GPUs' faults are counted by
// process: two calls a launch. With "late" the last rank comes to a call when the others have given it up: all have an
// error, and the next calls are right.
// launch: --relinked -n 3 --gpus 6 -x SWITCHYARD_NCCL_THRESHOLD=1000 -x VGPU_FAULTS=ncclAllReduce[1]@6=ncclSystemError -- 3
// launch: --relinked -n 3 --gpus 6 -x SWITCHYARD_NCCL_THRESHOLD=1000 -x VGPU_FAULTS=ncclAllReduce[2]@7=ncclSystemError -- 4
// launch: --relinked -n 3 --gpus 6 -x SWITCHYARD_NCCL_THRESHOLD=1000 -x VGPU_FAULTS=ncclCommInitRankConfig[1]@2=ncclSystemError -- 0
// launch: --relinked -n 3 --gpus 6 -x SWITCHYARD_NCCL_THRESHOLD=1000 -x VGPU_FAULTS=ncclCommInitRankConfig[1]@1=hang -x SWITCHYARD_TIMEOUT=2 -- 0
// launch: --relinked -n 4 --gpus 8 -x SWITCHYARD_NCCL_THRESHOLD=1000 -x VGPU_FAULTS=ncclCommInitRankConfig[2]@1=hang -x SWITCHYARD_TIMEOUT=1 -- 0
// launch: --relinked -n 3 --gpus 6 -x SWITCHYARD_TIMEOUT=2 -- late
#include <mpi.h>
#include <mpix_switchyard.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "../gpu.hpp"

namespace {

constexpr int kDevices = 2, kCount = 2000;
int rank = 0, size = 0, failures = 0;

void fill(std::vector<gpu::Memory>& memory) {
    const std::vector<int> ones(kCount, 1);
    const auto* bytes = reinterpret_cast<const std::byte*>(ones.data());
    for (gpu::Memory& one : memory)
        one.write({bytes, bytes + kCount * sizeof(int)});
}

bool summed(const std::vector<gpu::Memory>& memory) {
    bool right = true;
    for (const gpu::Memory& one : memory) {
        const std::vector<std::byte> bytes = one.read();
        int last = 0;
        std::memcpy(&last, bytes.data() + (kCount - 1) * sizeof(int), sizeof last);
        right &= last == size * kDevices;
    }
    return right;
}

bool is_given_up(int code) {
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    MPI_Error_string(code, text, &length);
    const char* wanted = rank == size - 1 ? "has given it up: SWITCHYARD_TIMEOUT" : "with no sign of rank 2";
    if (code != MPI_SUCCESS && std::strstr(text, wanted) != nullptr)
        return true;
    std::printf("rank %d: %s\n", rank, code == MPI_SUCCESS ? "no error of a call that was given up" : text);
    return false;
}

}  // namespace

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    const bool comes_late = argc > 1 && std::strcmp(argv[1], "late") == 0;
    const int failing = argc > 1 ? std::atoi(argv[1]) : 0;  // which call, from 1; 0: none
    constexpr int kLate = 3;                                // the call to which the last rank comes late
    std::vector<gpu::Memory> memory;
    std::vector<void*> list;
    for (int i = 0; i < kDevices; ++i) {
        gpu::Driver::get().use(rank * kDevices + i);
        memory.emplace_back(gpu::Kind::kDevice, kCount * sizeof(int));
        list.push_back(memory.back().address());
    }
    auto* const in_place = static_cast<const void* const*>(MPI_IN_PLACE);
    for (int call = 1; call <= 8; ++call) {
        fill(memory);
        int code = MPI_SUCCESS;
        if (comes_late && call == kLate && rank == size - 1)
            MPI_Barrier(MPI_COMM_WORLD);
        if (call % 2 == 1) {
            code = MPIX_Allreduce_multi(in_place, list.data(), kDevices, kCount, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        } else {
            MPI_Request request = MPI_REQUEST_NULL;
            MPIX_Iallreduce_multi(in_place, list.data(), kDevices, kCount, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);
            code = MPI_Wait(&request, MPI_STATUS_IGNORE);
        }
        if (comes_late && call == kLate) {
            failures += is_given_up(code) ? 0 : 1;
            if (rank != size - 1)
                MPI_Barrier(MPI_COMM_WORLD);
            continue;
        }
        char text[MPI_MAX_ERROR_STRING] = "";
        int length = 0, mpi_class = MPI_SUCCESS;
        MPI_Error_class(code, &mpi_class);
        MPI_Error_string(code, text, &length);
        const bool right = call == failing
                               ? mpi_class == MPI_ERR_OTHER && std::strstr(text, "ncclSystemError") != nullptr
                               : code == MPI_SUCCESS && summed(memory);
        if (right)
            continue;
        std::printf("rank %d, call %d: %s\n", rank, call, code == MPI_SUCCESS ? "a wrong sum or no error" : text);
        ++failures;
    }
    int anywhere = 0;
    MPI_Allreduce(&failures, &anywhere, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Finalize();
    return anywhere == 0 ? 0 : 1;
}
