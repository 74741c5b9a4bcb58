// Large device buffers on a communicator of any kind: collectives, messages, their results against arithmetic. Test
// programs only.
#pragma once

#include <mpi.h>

#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "../gpu.hpp"

namespace comm_test {

constexpr int kCount = 20000;  // of doubles: above the thresholds of collectives and of messages

class Use {
  public:
    Use(MPI_Comm comm, std::string what) : comm_(comm), what_(std::move(what)) {
        int inter = 0;
        MPI_Comm_test_inter(comm, &inter);
        inter_ = inter != 0;
        MPI_Comm_rank(comm, &rank_);
        MPI_Comm_size(comm, &size_);
        others_ = size_;
        if (inter_)
            MPI_Comm_remote_size(comm, &others_);
    }

    // Each of the two groups of an intercommunicator says whether it is the first.
    int all(bool first_group = true) {
        sum();
        inter_ ? broadcast_between(first_group) : broadcast();
        begun();
        inter_ ? messages_between() : messages();
        sum();
        return failures_;
    }

    // A sum of what the ranks of the other group have, on an intercommunicator (MPI 4.0 section 6.2.2).
    void sum() {
        const gpu::Memory mine = filled(rank_ + 1.0), result = filled(0.0);
        MPI_Allreduce(mine.at(0), result.at(0), kCount, MPI_DOUBLE, MPI_SUM, comm_);
        expect(result, others_ * (others_ + 1) / 2.0, "MPI_Allreduce");
    }

    int just_sum() {
        sum();
        return failures_;
    }

    int just_begun() {
        begun();
        return failures_;
    }

  private:
    void broadcast() {
        const int root = size_ - 1;
        const gpu::Memory data = filled(rank_ == root ? 7.0 : 0.0);
        MPI_Bcast(data.at(0), kCount, MPI_DOUBLE, root, comm_);
        expect(data, 7.0, "MPI_Bcast");
    }

    void broadcast_between(bool first_group) {
        const bool root = first_group && rank_ == 0;
        const gpu::Memory data = filled(root ? 7.0 : 0.0);
        MPI_Bcast(data.at(0), kCount, MPI_DOUBLE, !first_group ? 0 : root ? MPI_ROOT : MPI_PROC_NULL, comm_);
        expect(data, root || !first_group ? 7.0 : 0.0, "MPI_Bcast");
    }

    void begun() {
        const gpu::Memory mine = filled(rank_ + 2.0), result = filled(0.0);
        MPI_Request request = MPI_REQUEST_NULL;
        MPI_Iallreduce(mine.at(0), result.at(0), kCount, MPI_DOUBLE, MPI_SUM, comm_, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        expect(result, others_ * (others_ + 3) / 2.0, "MPI_Iallreduce");
    }

    // Around in a ring.
    void messages() {
        const int left = (rank_ + size_ - 1) % size_;
        const gpu::Memory mine = filled(10.0 + rank_), came = filled(0.0);
        MPI_Sendrecv(mine.at(0), kCount, MPI_DOUBLE, (rank_ + 1) % size_, 3, came.at(0), kCount, MPI_DOUBLE, left, 3,
                     comm_, MPI_STATUS_IGNORE);
        expect(came, 10.0 + left, "MPI_Sendrecv");
        MPI_Request requests[2];
        MPI_Irecv(came.at(0), kCount, MPI_DOUBLE, MPI_ANY_SOURCE, 4, comm_, &requests[0]);
        MPI_Isend(mine.at(0), kCount, MPI_DOUBLE, left, 4, comm_, &requests[1]);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        expect(came, 10.0 + (rank_ + 1) % size_, "MPI_Isend and MPI_Irecv");
    }

    // With the process of the same rank in the other group, where it has one.
    void messages_between() {
        if (rank_ >= others_)
            return;
        const gpu::Memory mine = filled(20.0 + rank_), came = filled(0.0);
        MPI_Sendrecv(mine.at(0), kCount, MPI_DOUBLE, rank_, 5, came.at(0), kCount, MPI_DOUBLE, rank_, 5, comm_,
                     MPI_STATUS_IGNORE);
        expect(came, 20.0 + rank_, "MPI_Sendrecv");
    }

    static gpu::Memory filled(double value) {
        const std::vector<double> values(kCount, value);
        std::vector<std::byte> bytes(values.size() * sizeof(double));
        std::memcpy(bytes.data(), values.data(), bytes.size());
        return gpu::Memory(gpu::Kind::kDevice, bytes);
    }

    void expect(const gpu::Memory& memory, double wanted, const char* call) {
        const std::vector<std::byte> bytes = memory.read();
        std::vector<double> values(bytes.size() / sizeof(double));
        std::memcpy(values.data(), bytes.data(), bytes.size());
        for (const double value : values) {
            if (value == wanted)
                continue;
            ++failures_;
            std::fprintf(stderr, "%s: rank %d of %d: %s: %g, not %g\n", what_.c_str(), rank_, size_, call, value,
                         wanted);
            return;
        }
    }

    const MPI_Comm comm_;
    const std::string what_;
    bool inter_ = false;
    int rank_ = 0, size_ = 0, others_ = 0, failures_ = 0;
};

}  // namespace comm_test
