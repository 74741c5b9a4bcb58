// A C++ program's calls arrive, on host and on device memory.
// launch: -n 2 -- host
// launch: -n 3 --gpus 3 -- host
// launch: -n 2 --gpus 2 -- device
// launch: -n 3 --gpus 2 -- device
#include <mpi.h>

#include <cstdio>
#include <numeric>
#include <string_view>
#include <vector>

#include "device_memory.h"

namespace {

bool on_device = false;
int failures = 0;

// A program's array, on the host or on the device.
class Array {
  public:
    explicit Array(std::vector<double> values) : values_(std::move(values)) {
        if (!on_device)
            return;
        memory_ = device_alloc(bytes());
        device_copy(memory_, values_.data(), bytes());
    }
    ~Array() {
        if (on_device)
            device_free(memory_);
    }
    Array(const Array&) = delete;
    Array& operator=(const Array&) = delete;

    void* data() { return on_device ? memory_ : values_.data(); }
    int size() const { return static_cast<int>(values_.size()); }

    void expect(const char* what, const std::vector<double>& expected) {
        if (on_device)
            device_copy(values_.data(), memory_, bytes());
        if (values_ == expected)
            return;
        std::fprintf(stderr, "%s: not what was expected\n", what);
        failures++;
    }

  private:
    std::size_t bytes() const { return values_.size() * sizeof(double); }
    std::vector<double> values_;
    void* memory_ = nullptr;
};

std::vector<double> ramp(int from, int count) {
    std::vector<double> values(static_cast<std::size_t>(count));
    std::iota(values.begin(), values.end(), from);
    return values;
}

void exchange(int rank, int size, int count) {
    const int next = (rank + 1) % size;
    const int previous = (rank + size - 1) % size;
    Array out(ramp(rank, count));
    Array in(std::vector<double>(static_cast<std::size_t>(count)));
    if (rank == 0)
        MPI_Send(out.data(), count, MPI_DOUBLE, next, 1, MPI_COMM_WORLD);
    MPI_Recv(in.data(), count, MPI_DOUBLE, previous, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (rank != 0)
        MPI_Send(out.data(), count, MPI_DOUBLE, next, 1, MPI_COMM_WORLD);
    in.expect("MPI_Recv", ramp(previous, count));
}

void collect(int rank, int size, int count) {
    Array buffer(ramp(rank, count));
    MPI_Bcast(buffer.data(), count, MPI_DOUBLE, size - 1, MPI_COMM_WORLD);
    buffer.expect("MPI_Bcast", ramp(size - 1, count));

    Array sums(ramp(rank, count));
    MPI_Allreduce(MPI_IN_PLACE, sums.data(), count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    std::vector<double> expected = ramp(0, count);
    for (double& x : expected)
        x = x * size + size * (size - 1) / 2;
    sums.expect("MPI_Allreduce", expected);

    std::vector<int> counts(static_cast<std::size_t>(size), count);
    std::vector<int> displs;
    std::vector<double> blocks;
    for (int r = size - 1; r >= 0; r--)  // blocks in reverse order
        displs.push_back(r * count);
    for (int r = size - 1; r >= 0; r--)
        for (double x : ramp(r, count))
            blocks.push_back(x);
    Array part(ramp(rank, count));
    Array all(std::vector<double>(blocks.size()));
    MPI_Gatherv(part.data(), count, MPI_DOUBLE, all.data(), counts.data(), displs.data(), MPI_DOUBLE, 0,
                MPI_COMM_WORLD);
    all.expect("MPI_Gatherv", rank == 0 ? blocks : std::vector<double>(blocks.size()));
}

}  // namespace

int main(int argc, char** argv) {
    on_device = argc > 1 && argv[1] == std::string_view("device");
    int provided = 0;
    int rank = 0;
    int size = 0;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int count : {0, 1, 77, 30000}) {
        exchange(rank, size, count);
        collect(rank, size, count);
    }
    MPI_Finalize();
    return failures != 0;
}
