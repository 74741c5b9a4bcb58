// A payload of more than 2^31 bytes. Needs about 5 GiB of memory, and is skipped where that is not
// free.
// launch: -n 2 --gpus 2 --relinked
// test-timeout: 240
#include <unistd.h>

#include <algorithm>

#include "content.hpp"

using namespace message_test;

namespace {

constexpr std::size_t kPiece = std::size_t{8} << 20;
constexpr std::size_t kBytes = (std::size_t{1} << 31) + 4120;
constexpr long long kWanted = 6LL << 30;

long long memory() {
    return static_cast<long long>(sysconf(_SC_AVPHYS_PAGES)) * sysconf(_SC_PAGESIZE);
}

std::vector<std::uint64_t> piece(std::size_t at) {
    std::vector<std::uint64_t> words(std::min(kPiece, kBytes - at) / 8);
    for (std::size_t i = 0; i < words.size(); ++i)
        words[i] = (at / 8 + i + 1) * 0x9e3779b97f4a7c15u;
    return words;
}

void* take(MPI_Count bytes, int where, const void*, int, void*) {
    check(bytes == static_cast<MPI_Count>(kBytes) && where == MPIX_MESSAGE_DEVICE, "what the allocator is asked for");
    return gpu::Driver::get().allocate(gpu::Kind::kDevice, static_cast<std::size_t>(bytes));
}

void expect_content(int code, void* payload, MPI_Count bytes, const std::string& how) {
    check(code == MPI_SUCCESS && bytes == static_cast<MPI_Count>(kBytes) && payload != nullptr, how);
    for (std::size_t at = 0; failures == 0 && at < kBytes; at += kPiece) {
        const std::vector<std::uint64_t> wanted = piece(at);
        std::vector<std::uint64_t> found(wanted.size());
        gpu::Driver::get().copy(found.data(), static_cast<std::byte*>(payload) + at, found.size() * 8);
        check(found == wanted, how + ": other data from byte " + std::to_string(at) + " on");
    }
    if (payload != nullptr)
        gpu::Driver::get().release(gpu::Kind::kDevice, payload);
}

}  // namespace

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    begin();
    int enough = memory() >= kWanted, metadata_bytes = 0;
    MPI_Bcast(&enough, 1, MPI_INT, 0, MPI_COMM_WORLD);
    if (enough == 0) {
        MPI_Finalize();
        return 77;
    }
    void* payload = nullptr;
    MPI_Count bytes = kBytes;
    if (rank == 0) {
        const gpu::Memory source(gpu::Kind::kDevice, kBytes);
        for (std::size_t at = 0; at < kBytes; at += kPiece) {
            const std::vector<std::uint64_t> words = piece(at);
            gpu::Driver::get().copy(source.at(at), words.data(), words.size() * 8);
        }
        payload = source.address();
        MPIX_Send_message(nullptr, 0, payload, bytes, 1, 4, MPI_COMM_WORLD);
    } else {
        const int code = MPIX_Recv_message(nullptr, 0, &metadata_bytes, take, nullptr, &payload, &bytes, 0, 4,
                                           MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        expect_content(code, payload, bytes, "sent");
    }
    return end();
}
