// Reductions of device memory that does not begin at a multiple of its elements' size: NCCL's kernels would read across
// the boundaries of words, which a GPU answers by ending the context. The results are compared with arithmetic.
// launch: -n 3 --gpus 3
// launch: -n 2 --gpus 2 -x VGPU_JITTER=2
#include <mpi.h>

#include <cstdio>
#include <cstring>
#include <vector>

#include "../gpu.hpp"

namespace {

constexpr int kCount = 40000;
int failures = 0;

template <typename T>
std::vector<T> values(int rank) {
    std::vector<T> all(kCount);
    for (int i = 0; i < kCount; ++i)
        all[static_cast<std::size_t>(i)] = static_cast<T>(rank + i % 97);
    return all;
}

template <typename T>
std::vector<T> sum(int size) {
    std::vector<T> all(kCount);
    for (int i = 0; i < kCount; ++i)
        all[static_cast<std::size_t>(i)] = static_cast<T>(size * (size - 1) / 2 + size * (i % 97));
    return all;
}

template <typename T>
class Data {
  public:
    explicit Data(std::size_t offset) : memory_(gpu::Kind::kDevice, kCount * sizeof(T) + offset), offset_(offset) {}
    void* address() const { return memory_.at(offset_); }
    void set(const std::vector<T>& content) {
        std::vector<std::byte> bytes(memory_.size());
        std::memcpy(bytes.data() + offset_, content.data(), kCount * sizeof(T));
        memory_.write(bytes);
    }
    bool is(const std::vector<T>& wanted) const {
        return std::memcmp(memory_.read().data() + offset_, wanted.data(), kCount * sizeof(T)) == 0;
    }

  private:
    gpu::Memory memory_;
    const std::size_t offset_;
};

void expect(bool right, const char* call, std::size_t in, std::size_t out) {
    if (right)
        return;
    std::fprintf(stderr, "FAILED: %s with addresses %zu and %zu bytes off\n", call, in, out);
    ++failures;
}

template <typename T>
void reduce(MPI_Datatype type, std::size_t in, std::size_t out, int rank, int size) {
    Data<T> send(in), recv(out);
    send.set(values<T>(rank));
    MPI_Allreduce(send.address(), recv.address(), kCount, type, MPI_SUM, MPI_COMM_WORLD);
    expect(recv.is(sum<T>(size)), "MPI_Allreduce", in, out);

    recv.set(values<T>(rank));
    MPI_Request request;
    MPI_Iallreduce(MPI_IN_PLACE, recv.address(), kCount, type, MPI_SUM, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    expect(recv.is(sum<T>(size)), "MPI_Iallreduce in place", in, out);

    recv.set(values<T>(rank));
    MPI_Reduce(send.address(), recv.address(), kCount, type, MPI_SUM, size - 1, MPI_COMM_WORLD);
    expect(recv.is(rank == size - 1 ? sum<T>(size) : values<T>(rank)), "MPI_Reduce", in, out);

    // An exchange of bytes needs no alignment.
    if (rank == 0)
        recv.set(values<T>(7));
    MPI_Bcast(recv.address(), kCount, type, 0, MPI_COMM_WORLD);
    expect(recv.is(values<T>(7)), "MPI_Bcast", in, out);
}

}  // namespace

int main(int argc, char** argv) {
    int rank = 0, size = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    gpu::Driver::get().use(rank % gpu::Driver::get().devices);
    for (const std::size_t in : {0, 1, 4})
        for (const std::size_t out : {0, 2, 4}) {
            reduce<float>(MPI_FLOAT, in, out, rank, size);
            reduce<double>(MPI_DOUBLE, in, out, rank, size);
        }
    // One rank alone off: all must take the same route.
    reduce<double>(MPI_DOUBLE, rank == 0 ? 4 : 0, 0, rank, size);
    MPI_Finalize();
    return failures == 0 ? 0 : 1;
}
