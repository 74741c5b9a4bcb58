// Makes, uses and frees the same communicators again and again, and looks at what that costs: file descriptors, device
// memory and host memory are the same after all rounds as after the first few. Option: --rounds N; --use device, host
// (no device memory is passed), parent (MPI_COMM_WORLD carries device memory too) alone (communicators of one rank) or
// idup. counted.test reads the report.
#include <mpi.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "cost.hpp"
#include "use.hpp"

namespace {

int rank = 0, size = 0, failures = 0;

void use_host_memory(MPI_Comm comm) {
    std::vector<double> mine(comm_test::kCount, 1.0), sum(mine.size());
    MPI_Allreduce(mine.data(), sum.data(), comm_test::kCount, MPI_DOUBLE, MPI_SUM, comm);
}

// All ranks in reverse order, then all but rank 0, which is alone.
void round(bool device) {
    for (const bool all : {true, false}) {
        MPI_Comm comm = MPI_COMM_NULL;
        MPI_Comm_split(MPI_COMM_WORLD, all ? 0 : rank == 0, -rank, &comm);
        if (device) {
            comm_test::Use use(comm, "in turn");
            failures += use.just_sum();
        } else {
            use_host_memory(comm);
        }
        MPI_Comm_free(&comm);
    }
}

// Not split off the parent, which is in use meanwhile: its own NCCL communicator, which is used again in each round.
void round_duplicated() {
    MPI_Comm comm = MPI_COMM_NULL;
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Comm_idup(MPI_COMM_WORLD, &comm, &request);
    failures += comm_test::Use(MPI_COMM_WORLD, "the parent").just_sum();
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    failures += comm_test::Use(comm, "duplicated").just_sum();
    MPI_Comm_free(&comm);
}

void round_alone() {
    MPI_Comm comm = MPI_COMM_NULL;
    MPI_Comm_split(MPI_COMM_WORLD, rank, 0, &comm);
    failures += comm_test::Use(comm, "alone").all();
    MPI_Comm_free(&comm);
}

}  // namespace

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int rounds = 100;
    std::string_view use = "device";
    for (int i = 1; i + 1 < argc; i += 2) {
        if (std::string_view(argv[i]) == "--rounds")
            rounds = std::atoi(argv[i + 1]);
        else
            use = argv[i + 1];
    }
    gpu::Driver::get().use(rank % gpu::Driver::get().devices);
    if (use == "parent")
        failures += comm_test::Use(MPI_COMM_WORLD, "the parent").just_sum();
    comm_test::Cost early = comm_test::cost();  // the first question opens files itself
    for (int i = 0; i < rounds; ++i) {
        if (use == "alone")
            round_alone();
        else if (use == "idup")
            round_duplicated();
        else
            round(use != "host");
        if (i + 1 == comm_test::kFirstRounds) {
            MPI_Barrier(MPI_COMM_WORLD);
            early = comm_test::cost();
        }
    }
    MPI_Barrier(MPI_COMM_WORLD);
    failures += comm_test::dearer(rank, early, comm_test::cost(), rounds);
    int anywhere = 0;
    MPI_Allreduce(&failures, &anywhere, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Finalize();
    return anywhere == 0 ? 0 : 1;
}
