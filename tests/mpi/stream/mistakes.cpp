// What does not match, or is not there, is an MPI error that says so, and no rank hangs.
// clang-format off
// launch: -n 2 --gpus 2 --relinked
// launch: -n 3 --gpus 3 --relinked -x VGPU_JITTER=2
// test-timeout: 60
// clang-format on
#include <cstdio>
#include <string>
#include <vector>

#include "queue.hpp"

namespace {

using stream_test::Bytes;
using stream_test::Queue;

int rank = 0, failures = 0;

void expect(bool right, const std::string& what) {
    if (right)
        return;
    ++failures;
    std::fprintf(stderr, "rank %d: %s\n", rank, what.c_str());
}

void expect_error(int code, int wanted, const std::vector<std::string>& words, const char* what) {
    char text[MPI_MAX_ERROR_STRING] = "";
    int found = MPI_SUCCESS, length = 0;
    MPI_Error_class(code, &found);
    MPI_Error_string(code, text, &length);
    expect(found == wanted, std::string(what) + ": class " + std::to_string(found) + ": " + text);
    for (const std::string& word : words)
        expect(std::string(text).find(word) != std::string::npos,
               std::string(what) + ": no \"" + word + "\" in " + text);
}

// Rank 0 sends and rank 1 receives, which do not agree. Who notices at the next call or at the end says what is wrong.
void mismatch(int tag_sent, int sent, int tag_wanted, int wanted, const std::vector<std::string>& words,
              bool at_next_call) {
    Queue queue;
    MPI_Comm_set_errhandler(queue.comm, MPI_ERRORS_RETURN);
    gpu::Memory& data = queue.buffer(gpu::Kind::kDevice, Bytes(1000));
    int code = MPI_SUCCESS;
    if (rank == 0)
        MPIX_Send_enqueue(data.address(), sent, MPI_BYTE, 1, tag_sent, queue.comm);
    if (rank == 1)
        code = MPIX_Recv_enqueue(data.address(), wanted, MPI_BYTE, 0, tag_wanted, queue.comm, MPI_STATUS_IGNORE);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 1 && at_next_call && code == MPI_SUCCESS) {
        code = MPIX_Barrier_enqueue(queue.comm);
        expect_error(code, MPI_ERR_OTHER, words, "a mismatch at the next call");
    }
    // Who was told at a call before need not be told again, and a sender with whom nothing is wrong is not.
    MPI_Comm freed = queue.comm;
    code = MPI_Comm_free(&freed);
    if (rank == 1 && !at_next_call)
        expect_error(code, MPI_ERR_OTHER, words, "a mismatch at the end");
    queue.synchronize();
    if (code != MPI_SUCCESS)
        MPI_Comm_free(&freed);
    queue.comm = MPI_COMM_NULL;
}

void messages() {
    mismatch(1, 1000, 2, 1000, {"rank 0 to rank 1", "tag 1 and 1000 bytes", "tag 2 and 1000 bytes"}, true);
    mismatch(1, 1000, 1, 400, {"rank 0 to rank 1", "tag 1 and 1000 bytes", "tag 1 and 400 bytes"}, false);
    mismatch(4, 100, MPI_ANY_TAG, 700, {"tag 4 and 100 bytes", "any tag and 700 bytes"}, true);
}

void arguments() {
    Queue queue;
    MPI_Comm_set_errhandler(queue.comm, MPI_ERRORS_RETURN);
    gpu::Memory& data = queue.buffer(gpu::Kind::kDevice, Bytes(1000));
    expect_error(MPIX_Recv_enqueue(data.address(), 10, MPI_BYTE, MPI_ANY_SOURCE, 0, queue.comm, MPI_STATUS_IGNORE),
                 MPI_ERR_OTHER, {"MPIX_Recv_enqueue", "MPI_ANY_SOURCE"}, "any source");
    expect_error(MPIX_Send_enqueue(data.address(), 10, MPI_BYTE, 99, 0, queue.comm), MPI_ERR_RANK, {}, "rank 99");
    expect_error(MPIX_Send_enqueue(data.address(), -1, MPI_BYTE, 0, 0, queue.comm), MPI_ERR_COUNT, {}, "count -1");
    expect_error(MPIX_Bcast_enqueue(data.address(), 10, MPI_BYTE, 99, queue.comm), MPI_ERR_ROOT, {}, "root 99");
    expect_error(MPIX_Bcast_enqueue(data.address(), 10, MPI_BYTE, 0, MPI_COMM_WORLD), MPI_ERR_COMM,
                 {"MPIX_Bcast_enqueue", "MPIX_Stream_comm_create"}, "a communicator without stream");
    MPIX_Stream stream = queue.object(), found = MPIX_STREAM_NULL;
    expect_error(MPIX_Stream_free(&stream), MPI_ERR_ARG, {"still has the stream"}, "a stream in use");
    MPIX_Comm_get_stream(queue.comm, 0, &found);
    expect(found == queue.object(), "MPIX_Comm_get_stream gives another stream");
    MPIX_Comm_get_stream(MPI_COMM_WORLD, 0, &found);
    expect(found == MPIX_STREAM_NULL, "MPIX_Comm_get_stream gives a stream of MPI_COMM_WORLD");
}

void infos() {
    MPI_Info info = MPI_INFO_NULL;
    MPI_Info_create(&info);
    MPIX_Stream stream = MPIX_STREAM_NULL;
    MPI_Info_set(info, "type", "hipStream_t");
    expect_error(MPIX_Stream_create(info, &stream), MPI_ERR_ARG, {"hipStream_t"}, "another type");
    MPI_Info_set(info, "type", "cudaStream_t");
    expect_error(MPIX_Stream_create(info, &stream), MPI_ERR_ARG, {"MPIX_Info_set_hex"}, "no value");
    MPI_Info_set(info, "value", "xyz");
    expect_error(MPIX_Stream_create(info, &stream), MPI_ERR_ARG, {"MPIX_Info_set_hex"}, "another value");
    MPI_Info_free(&info);
    const unsigned char bytes[] = {0x0f, 0xa0, 0x07};
    char text[20] = "";
    int there = 0;
    MPI_Info_create(&info);
    MPIX_Info_set_hex(info, "bytes", bytes, sizeof bytes);
    MPI_Info_get(info, "bytes", sizeof text - 1, text, &there);
    expect(there != 0 && std::string(text) == "0fa007", std::string("MPIX_Info_set_hex sets ") + text);
    MPI_Info_free(&info);
    expect(MPIX_Stream_create(MPI_INFO_NULL, &stream) == MPI_SUCCESS && stream != MPIX_STREAM_NULL &&
               MPIX_Stream_free(&stream) == MPI_SUCCESS && stream == MPIX_STREAM_NULL,
           "a stream of no kind");
}

}  // namespace

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    gpu::Driver::get().use(rank % gpu::Driver::get().devices);
    messages();
    arguments();
    infos();
    // The group's next NCCL communicator is a new one.
    Queue queue;
    gpu::Memory& data = queue.buffer(gpu::Kind::kDevice, Bytes(1000, std::byte{1}));
    int size = 0;
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPIX_Allreduce_enqueue(MPI_IN_PLACE, data.address(), 1000, MPI_SIGNED_CHAR, MPI_SUM, queue.comm);
    const gpu::Memory& found = queue.take(data);
    queue.synchronize();
    expect(found.read() == Bytes(1000, static_cast<std::byte>(size)), "a sum after all that is wrong");
    if (failures != 0)
        MPI_Abort(MPI_COMM_WORLD, 1);
    MPI_Comm_free(&queue.comm);
    MPI_Finalize();
    return 0;
}
