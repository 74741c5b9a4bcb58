// The staged pipeline when the third copy in a process fails: the side whose copy it is says so, the other one is left
// neither waiting nor with messages that nobody takes.
// clang-format off
// launch: -n 2 --gpus 2 --plain -x VGPU_FAULTS=cuMemcpyAsync@3=CUDA_ERROR_INVALID_VALUE
// launch: -n 2 --gpus 2 --plain -x VGPU_FAULTS=cuMemcpyAsync@3=CUDA_ERROR_INVALID_VALUE -- plain
// launch: -n 2 --gpus 2 --plain -x VGPU_FAULTS=cuMemcpyAsync@3+=CUDA_ERROR_LAUNCH_FAILED -x SWITCHYARD_PINNED_POOL=4096
// clang-format on
#include "transfers.hpp"

namespace {

using namespace transfers;
using swy::staging::receive_chunks;
using swy::staging::send_chunks;

constexpr std::size_t kChunk = std::size_t{64} << 10;
constexpr std::size_t kBytes = 9 * kChunk + 1000;

// Only `device_rank` copies: the other side is host memory. As point-to-point operations do, a side that has failed
// tells the other, which gives up.
void One_side_s_failure_ends_both(const Job& job, bool device_sends) {
    const bool mine = job.rank == (device_sends ? 1 : 0), sends = mine == device_sends;
    gpu::Memory memory(mine ? gpu::Kind::kDevice : gpu::Kind::kHost, pattern(kBytes, job.rank));
    const Payload payload = payload_at(memory.at(0), kBytes, MPI_BYTE);
    const auto transfer =
        sends ? send_chunks(payload, kBytes, job.route(1)) : receive_chunks(payload, kBytes, job.route(1));
    if (mine) {
        finish({transfer.get()}, "the side that fails");
        MPI_Send(nullptr, 0, MPI_BYTE, 1 - job.rank, 2, MPI_COMM_WORLD);
        const char* const expected = sends ? "copying the message from the device to host memory failed: CUDA_ERROR_"
                                           : "copying the message from host memory to the device failed: CUDA_ERROR_";
        expect(transfer->failure().find(expected) == 0, "wrong failure: " + transfer->failure());
    } else {
        for (int told = 0; !told; MPI_Iprobe(1 - job.rank, 2, MPI_COMM_WORLD, &told, MPI_STATUS_IGNORE))
            transfer->step();
        MPI_Recv(nullptr, 0, MPI_BYTE, 1 - job.rank, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        transfer->give_up("the peer has failed");
        finish({transfer.get()}, "the side that is told");
        if (sends)
            expect(transfer->failure().empty() || transfer->failure() == "the peer has failed", transfer->failure());
        else
            expect(transfer->failure() == "the peer has failed", "a failed message is taken for a whole one");
    }
    MPI_Barrier(MPI_COMM_WORLD);
    int found = 0;
    for (int i = 0; i < 100 && !found; ++i)
        MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, job.chunks, &found, MPI_STATUS_IGNORE);
    expect(!found, "a chunk has been left behind");
    MPI_Barrier(MPI_COMM_WORLD);  // before the next case's chunks come
}

// The peer, plain MPI here, may be slow: what has been sent before the failure must find its receive, or it would meet
// a later one.
void A_failed_send_ends_when_the_chunks_before_have_been_received(const Job& job) {
    std::vector<std::byte> chunk(kChunk);
    if (job.rank == 0) {
        gpu::Memory memory(gpu::Kind::kDevice, pattern(kBytes, 1));
        const auto sending = send_chunks(payload_at(memory.at(0), kBytes, MPI_BYTE), kBytes, job.route(1));
        step_for(*sending, std::chrono::milliseconds(300));
        expect(!sending->done(), "done while its chunks wait for the receiver");
        MPI_Send(nullptr, 0, MPI_BYTE, 1, 2, MPI_COMM_WORLD);
        finish({sending.get()}, "a send that fails");
        expect(sending->failure().find("CUDA_ERROR_INVALID_VALUE") != std::string::npos, sending->failure());
    } else {
        MPI_Recv(nullptr, 0, MPI_BYTE, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        for (int i = 0; i < 2; ++i)
            MPI_Recv(chunk.data(), kChunk, MPI_BYTE, 0, 1, job.chunks, MPI_STATUS_IGNORE);
        expect(std::equal(chunk.begin(), chunk.end(), pattern(kBytes, 1).begin() + kChunk), "wrong data");
    }
}

// As Open MPI receives it over libfabric where the sender has died: with success, and nothing in it.
void A_chunk_that_comes_short_is_no_success(const Job& job, gpu::Kind kind) {
    if (job.rank == 0) {
        gpu::Memory memory(kind, pattern(kBytes, 0));
        const auto receiving = receive_chunks(payload_at(memory.at(0), kBytes, MPI_BYTE), kBytes, job.route(1));
        finish({receiving.get()}, "a receive of a chunk that comes short");
        expect(receiving->failure() == "a chunk of 65536 bytes has come with 0: its sender has failed",
               "wrong failure: " + receiving->failure());
    } else {
        MPI_Send(nullptr, 0, MPI_BYTE, 0, 1, job.chunks);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

}  // namespace

int main(int argc, char** argv) {
    Job job(&argc, &argv);
    Job::set_chunk(kChunk);
    if (argc > 1) {
        A_failed_send_ends_when_the_chunks_before_have_been_received(job);
        A_chunk_that_comes_short_is_no_success(job, gpu::Kind::kDevice);
        A_chunk_that_comes_short_is_no_success(job, gpu::Kind::kHost);
    } else {
        One_side_s_failure_ends_both(job, true);
        One_side_s_failure_ends_both(job, false);
    }
    return failures > 0 ? 1 : 0;
}
