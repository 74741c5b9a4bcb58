// More than 2^32 bytes in one message, through little memory: the sender's type repeats one piece of device memory, and
// the receiver's address range shows one file over and over.
// launch: -n 2 --gpus 2 --plain
// test-timeout: 240
#include <sys/mman.h>
#include <unistd.h>

#include "transfers.hpp"

namespace {

using namespace transfers;

constexpr std::size_t kPiece = std::size_t{24} << 20;  // of which 2^32 is no multiple
constexpr std::size_t kCopies = 172;
constexpr std::size_t kBytes = kPiece * kCopies - 12345;
static_assert(kBytes > std::size_t{1} << 32 && (std::size_t{1} << 32) % kPiece != 0);

void send(const Job& job) {
    gpu::Memory memory(gpu::Kind::kDevice, pattern(kPiece, 1));
    MPI_Datatype piece, all;
    MPI_Type_contiguous(kPiece, MPI_BYTE, &piece);
    MPI_Type_create_hvector(kCopies, 1, 0, piece, &all);
    MPI_Type_commit(&all);
    const auto sending = swy::carrier::staged::send_chunks(payload_at(memory.at(0), 1, all), kBytes, job.route(1));
    finish({sending.get()}, "sending");
    expect(sending->failure().empty(), sending->failure());
    MPI_Type_free(&piece);
    MPI_Type_free(&all);
}

void receive(const Job& job) {
    const int file = memfd_create("piece", 0);
    if (ftruncate(file, kPiece) != 0)
        MPI_Abort(MPI_COMM_WORLD, 1);
    auto* range = static_cast<std::byte*>(
        mmap(nullptr, kPiece * kCopies, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    for (std::size_t i = 0; i < kCopies; ++i)
        if (mmap(range + i * kPiece, kPiece, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0) == MAP_FAILED)
            MPI_Abort(MPI_COMM_WORLD, 1);
    MPI_Datatype piece;
    MPI_Type_contiguous(kPiece, MPI_BYTE, &piece);
    const auto receiving =
        swy::carrier::staged::receive_chunks(payload_at(range, kCopies, piece), kBytes, job.route(1));
    finish({receiving.get()}, "receiving");
    expect(receiving->failure().empty(), receiving->failure());
    expect(std::equal(range, range + kPiece, pattern(kPiece, 1).begin()), "wrong data");
    MPI_Type_free(&piece);
    munmap(range, kPiece * kCopies);
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
