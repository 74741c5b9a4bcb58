// Collectives on device memory while NCCL or the driver fails on one rank (VGPU_FAULTS), without a time limit: every
// rank says which rounds have failed and why, and all others give what arithmetic gives. With --begun they do not
// block, several at once on two communicators. Driven by failing.test.
#include <mpi.h>

#include <cstdio>
#include <cstring>
#include <memory>
#include <string_view>
#include <vector>

#include "../gpu.hpp"

namespace {

constexpr int kCount = 30000;  // of doubles: above the threshold
constexpr int kRounds = 8;

int rank = 0, size = 0, wrong = 0;

void say(int round, int code) {
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    MPI_Error_string(code, text, &length);
    std::fprintf(stderr, "rank %d, round %d: %s\n", rank, round, text);
}

// One call under way: a sum, a broadcast from rank 0, or a gathering on it.
class Operation {
  public:
    explicit Operation(int kind)
        : kind_(kind), mine_(gpu::Kind::kDevice, bytes(1, rank + 1.0)), all_(gpu::Kind::kDevice, bytes(size, 0.0)) {}

    int run(MPI_Comm comm) {
        switch (kind_ % 3) {
            case 0:
                return MPI_Allreduce(mine_.at(0), all_.at(0), kCount, MPI_DOUBLE, MPI_SUM, comm);
            case 1:
                return MPI_Bcast(mine_.at(0), kCount, MPI_DOUBLE, 0, comm);
            default:
                return MPI_Gather(mine_.at(0), kCount, MPI_DOUBLE, all_.at(0), kCount, MPI_DOUBLE, 0, comm);
        }
    }
    int begin(MPI_Comm comm, MPI_Request* request) {
        switch (kind_ % 3) {
            case 0:
                return MPI_Iallreduce(mine_.at(0), all_.at(0), kCount, MPI_DOUBLE, MPI_SUM, comm, request);
            case 1:
                return MPI_Ibcast(mine_.at(0), kCount, MPI_DOUBLE, 0, comm, request);
            default:
                return MPI_Igather(mine_.at(0), kCount, MPI_DOUBLE, all_.at(0), kCount, MPI_DOUBLE, 0, comm, request);
        }
    }

    void check(int round) const {
        bool right = true;
        if (kind_ % 3 == 0)
            right = value(all_, 0) == size * (size + 1) / 2.0;
        else if (kind_ % 3 == 1)
            right = value(mine_, 0) == 1.0;
        for (int r = 0; kind_ % 3 == 2 && rank == 0 && r < size; ++r)
            right = right && value(all_, r) == r + 1.0;
        if (!right && wrong++ == 0)
            std::fprintf(stderr, "rank %d, round %d: a wrong result of kind %d\n", rank, round, kind_ % 3);
    }

  private:
    static std::vector<std::byte> bytes(int blocks, double value) {
        const std::vector<double> values(static_cast<std::size_t>(blocks) * kCount, value);
        std::vector<std::byte> all(values.size() * sizeof(double));
        std::memcpy(all.data(), values.data(), all.size());
        return all;
    }
    // The last of a block.
    static double value(const gpu::Memory& memory, int block) {
        const std::vector<std::byte> all = memory.read();
        double found = 0;
        std::memcpy(&found, &all[((static_cast<std::size_t>(block) + 1) * kCount - 1) * sizeof found], sizeof found);
        return found;
    }

    const int kind_;
    const gpu::Memory mine_, all_;
};

void blocking(MPI_Comm comm, int kind, int round) {
    Operation operation(kind);
    const int rc = operation.run(comm);
    if (rc == MPI_SUCCESS)
        operation.check(round);
    else
        say(round, rc);
}

void begun(MPI_Comm one, MPI_Comm other, int round) {
    std::vector<std::unique_ptr<Operation>> operations;
    std::vector<MPI_Request> requests(4);
    for (int i = 0; i < 4; ++i) {
        // On the two communicators in another order on every second rank.
        MPI_Comm comm = (i + rank) % 2 == 0 ? one : other;
        operations.push_back(std::make_unique<Operation>(round + i / 2 + (comm == one ? 0 : 1)));
        operations.back()->begin(comm, &requests[static_cast<std::size_t>(i)]);
    }
    if (round % 2 == 1)
        blocking(one, 0, round);  // takes its turn behind them
    for (std::size_t i = 0; i < 4; ++i) {
        const int rc = MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
        if (rc == MPI_SUCCESS)
            operations[i]->check(round);
        else
            say(round, rc);
    }
}

}  // namespace

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    gpu::Driver::get().use(rank);
    MPI_Comm one = MPI_COMM_NULL, other = MPI_COMM_NULL;
    MPI_Comm_dup(MPI_COMM_WORLD, &one);
    MPI_Comm_dup(MPI_COMM_WORLD, &other);
    MPI_Comm_set_errhandler(one, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(other, MPI_ERRORS_RETURN);
    const bool blocks = argc < 2 || std::string_view(argv[1]) != "--begun";
    for (int round = 0; round < kRounds; ++round) {
        blocking(one, 0, round);  // a sum: makes the NCCL communicator, again after a failure
        if (blocks) {
            blocking(one, round + 1, round);
        } else {
            blocking(other, 0, round);
            begun(one, other, round);
        }
    }
    MPI_Comm_free(&one);
    MPI_Comm_free(&other);
    MPI_Finalize();
    return wrong == 0 ? 0 : 1;
}
