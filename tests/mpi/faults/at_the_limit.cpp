// A rank comes to a collective just when the others give it up (SWITCHYARD_TIMEOUT): whoever is a little earlier, each
// rank gets an error or the right data, in the time that the limit allows, and the next call is right. That holds for
// calls of every form. Some rounds each have a communicator of their own, so the ranks would set one up for NCCL; the
// rank that comes late comes a little earlier or later each time.
// launch: -n 2 --gpus 2 --relinked -x SWITCHYARD_TIMEOUT=0.4 -x SWITCHYARD_NCCL_THRESHOLD=1000 -x SWITCHYARD_STATUS=no
// launch: -n 3 --gpus 3 --relinked -x SWITCHYARD_TIMEOUT=0.4 -x SWITCHYARD_NCCL_THRESHOLD=1000 -x SWITCHYARD_STATUS=no
#include <mpi.h>
#include <mpix_switchyard.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <thread>
#include <vector>

#include "../../collective_forms.hpp"
#include "../../random_seed.hpp"
#include "../gpu.hpp"

namespace {

constexpr int kRounds = 80, kCount = 2000;
constexpr int kEach = 8;  // rounds on one communicator
enum class Form { kBlocking, kNonBlocking, kPersistent, kMulti, kNonBlockingMulti };
constexpr int kForms = 5;
constexpr double kLimit = 0.4, kAround = 0.004;  // seconds
constexpr double kMost = 10;                     // for one call: a few limits, and a machine that does other things
int rank = 0, size = 0, failures = 0;

void fail(int round, const char* what) {
    std::printf("rank %d, round %d: %s\n", rank, round, what);
    ++failures;
}

std::vector<std::byte> bytes_of(int value) {
    const std::vector<int> numbers(kCount, value);
    const auto* first = reinterpret_cast<const std::byte*>(numbers.data());
    return {first, first + kCount * sizeof(int)};
}

int call(Form form, void* data, MPI_Comm comm) {
    const auto* in_place = static_cast<const void* const*>(MPI_IN_PLACE);
    if (form == Form::kMulti)
        return MPIX_Allreduce_multi(in_place, &data, 1, kCount, MPI_INT, MPI_SUM, comm);
    if (form == Form::kNonBlockingMulti) {
        MPI_Request request = MPI_REQUEST_NULL;
        const int code = MPIX_Iallreduce_multi(in_place, &data, 1, kCount, MPI_INT, MPI_SUM, comm, &request);
        return code == MPI_SUCCESS ? MPI_Wait(&request, MPI_STATUS_IGNORE) : code;
    }
    forms::current = form == Form::kBlocking      ? forms::Form::kBlocking
                     : form == Form::kNonBlocking ? forms::Form::kNonBlocking
                                                  : forms::Form::kPersistent;
    return forms::Allreduce(MPI_IN_PLACE, data, kCount, MPI_INT, MPI_SUM, comm);
}

// Returns whether the call, or the start of a persistent one, has succeeded `by` seconds after all ranks were there.
bool reduce(int round, Form form, double by, gpu::Memory& memory, MPI_Comm comm) {
    memory.write(bytes_of(round + rank));
    std::chrono::steady_clock::time_point start;
    const auto meet = [&] {
        MPI_Barrier(MPI_COMM_WORLD);
        std::this_thread::sleep_for(std::chrono::duration<double>(by));
        start = std::chrono::steady_clock::now();
    };
    forms::before_start = meet;
    if (form != Form::kPersistent)
        meet();
    const int code = call(form, memory.address(), comm);
    if (std::chrono::steady_clock::now() - start > std::chrono::duration<double>(kMost))
        fail(round, "the call took too long");
    if (code != MPI_SUCCESS)
        return false;
    if (memory.read() != bytes_of(size * round + size * (size - 1) / 2))
        fail(round, "success, and wrong data");
    return true;
}

}  // namespace

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    unsigned seed = random_seed();
    MPI_Bcast(&seed, 1, MPI_UNSIGNED, 0, MPI_COMM_WORLD);
    if (rank == 0)
        std::printf("SWY_RANDOM_SEED=%u\n", seed);
    std::mt19937 draws(seed);
    gpu::Driver::get().use(rank % std::atoi(std::getenv("VGPU_COUNT")));
    gpu::Memory memory(gpu::Kind::kDevice, kCount * sizeof(int));
    int succeeded = 0;
    MPI_Comm comm = MPI_COMM_NULL;
    for (int round = 0; round < kRounds; ++round) {
        const int late = static_cast<int>(draws() % static_cast<unsigned>(size));
        const double by = kLimit + kAround * (static_cast<double>(draws() % 2001) / 1000 - 1);
        if (round % kEach == 0) {
            MPI_Comm_dup(MPI_COMM_WORLD, &comm);
            MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
        }
        const bool waits = rank == late && round % 2 == 0;
        const auto form = static_cast<Form>(round / kEach % kForms);
        const int mine = reduce(round, form, waits ? by : 0, memory, comm) ? 1 : 0;
        int ranks = 0;
        MPI_Allreduce(&mine, &ranks, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        succeeded += ranks == size ? 1 : 0;
        if (round % kEach == kEach - 1)
            MPI_Comm_free(&comm);
    }
    if (rank == 0)
        std::printf("%d of %d rounds succeeded\n", succeeded, kRounds);
    int all = 0;
    MPI_Allreduce(&failures, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Finalize();
    return all == 0 ? 0 : 1;
}
