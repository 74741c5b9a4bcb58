// More than 2^32 bytes in one message, through little memory: the sender's type repeats one piece of device memory, and
// the receiver's address range shows one file of another length over and over.
// launch: -n 2 --gpus 2 --plain
// test-timeout: 240
#include <sys/mman.h>
#include <unistd.h>

#include "transfers.hpp"

namespace {

using namespace transfers;

// Of which 2^32 is no multiple.
constexpr std::size_t kSent = std::size_t{24} << 20, kCopies = 172;
constexpr std::size_t kReceived = std::size_t{40} << 20, kViews = 104;
constexpr std::size_t kBytes = kSent * kCopies - 12345;
static_assert(kBytes > std::size_t{1} << 32 && kReceived * kViews >= kBytes);

void send(const Job& job) {
    gpu::Memory memory(gpu::Kind::kDevice, pattern(kSent, 1));
    MPI_Datatype piece, all;
    MPI_Type_contiguous(kSent, MPI_BYTE, &piece);
    MPI_Type_create_hvector(kCopies, 1, 0, piece, &all);
    MPI_Type_commit(&all);
    const auto sending = swy::staging::send_chunks(payload_at(memory.at(0), 1, all), kBytes, job.route(1));
    finish({sending.get()}, "sending");
    expect(sending->failure().empty(), sending->failure());
    MPI_Type_free(&piece);
    MPI_Type_free(&all);
}

void receive(const Job& job) {
    const int file = memfd_create("piece", 0);
    if (ftruncate(file, kReceived) != 0)
        MPI_Abort(MPI_COMM_WORLD, 1);
    auto* range = static_cast<std::byte*>(
        mmap(nullptr, kReceived * kViews, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    for (std::size_t i = 0; i < kViews; ++i)
        if (mmap(range + i * kReceived, kReceived, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0) ==
            MAP_FAILED)
            MPI_Abort(MPI_COMM_WORLD, 1);
    MPI_Datatype piece;
    MPI_Type_contiguous(kReceived, MPI_BYTE, &piece);
    const auto receiving = swy::staging::receive_chunks(payload_at(range, kViews, piece), kBytes, job.route(1));
    finish({receiving.get()}, "receiving");
    expect(receiving->failure().empty(), receiving->failure());
    bool right = true;  // what has been written last to each byte of the file
    for (std::size_t i = kBytes - kReceived; i < kBytes; ++i)
        right = right && range[i] == value(i % kSent, 1);
    expect(right, "wrong data");
    MPI_Type_free(&piece);
    munmap(range, kReceived * kViews);
    close(file);
}

}  // namespace

int main(int argc, char** argv) {
    Job job(&argc, &argv);
    Job::set_chunk(std::size_t{4} << 20);
    if (job.rank == 0)
        send(job);
    else
        receive(job);
    return failures > 0 ? 1 : 0;
}
