// A rank waits for its stream, outside MPI, and what is queued there does not end, since another rank does not come or
// has failed. Driven by unended.test:
//   unended late|never|fails SECONDS [multiple]
// Rank 1 queues its part of the second collective SECONDS after the others ("late"), once they have told it that they
// have given it up ("never"), or at once, and VGPU_FAULTS has it fail ("fails"). `multiple`: with MPI_THREAD_MULTIPLE.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#include "queue.hpp"

namespace {

constexpr int kCount = 1000;
int rank = 0, size = 1, failures = 0;

void expect(bool right, const std::string& what) {
    if (right)
        return;
    ++failures;
    std::fprintf(stderr, "rank %d: FAILED: %s\n", rank, what.c_str());
}

std::string text_of(int code) {
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    MPI_Error_string(code, text, &length);
    return text;
}

stream_test::Bytes ints(int value) {
    stream_test::Bytes bytes(kCount * sizeof value);
    for (std::size_t i = 0; i < kCount; ++i)
        std::memcpy(bytes.data() + i * sizeof value, &value, sizeof value);
    return bytes;
}

// Queues a sum, waits for the stream, and returns the call's code.
int sum(stream_test::Queue& queue, gpu::Memory& out, double& seconds) {
    gpu::Memory& in = queue.buffer(gpu::Kind::kDevice, ints(rank + 1));
    const auto began = std::chrono::steady_clock::now();
    const int code = MPIX_Allreduce_enqueue(in.address(), out.address(), kCount, MPI_INT, MPI_SUM, queue.comm);
    queue.synchronize();
    seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    return code;
}

// The collective ends well, or the next call on the communicator is an error.
void second(stream_test::Queue& queue, const std::string& where, double pause) {
    gpu::Memory& out = queue.buffer(gpu::Kind::kDevice, ints(-1));
    queue.synchronize();
    double took = 0;
    if (rank == 1 && where == "never")
        MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 1 && where == "late")
        std::this_thread::sleep_for(std::chrono::duration<double>(pause));
    int code = sum(queue, out, took);
    std::fprintf(stderr, "rank %d: the stream has ended after %.1f s\n", rank, took);
    if (rank != 1 && where == "never")
        MPI_Barrier(MPI_COMM_WORLD);
    if (where == "late") {
        expect(code == MPI_SUCCESS && out.read() == ints(size * (size + 1) / 2), "the sum is wrong: " + text_of(code));
        return;
    }
    if (code == MPI_SUCCESS)
        code = MPIX_Barrier_enqueue(queue.comm);
    std::fprintf(stderr, "rank %d: %s\n", rank, text_of(code).c_str());
    expect(code != MPI_SUCCESS, "no error");
}

}  // namespace

int main(int argc, char** argv) {
    int provided = 0;
    MPI_Init_thread(&argc, &argv, argc > 3 ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    gpu::Driver::get().use(rank % gpu::Driver::get().devices);
    {
        stream_test::Queue queue;
        MPI_Comm_set_errhandler(queue.comm, MPI_ERRORS_RETURN);
        gpu::Memory& out = queue.buffer(gpu::Kind::kDevice, ints(-1));
        double took = 0;
        const int code = sum(queue, out, took);
        expect(code == MPI_SUCCESS && out.read() == ints(size * (size + 1) / 2), "the first sum is wrong");
        // A failure ends all that the communicator still has on other ranks' streams.
        MPI_Barrier(MPI_COMM_WORLD);
        second(queue, argv[1], std::atof(argv[2]));
        const int freed = MPI_Comm_free(&queue.comm);
        expect((freed == MPI_SUCCESS) == (std::string(argv[1]) == "late"), "MPI_Comm_free: " + text_of(freed));
        queue.comm = MPI_COMM_NULL;
    }
    MPI_Finalize();
    return failures != 0;
}
