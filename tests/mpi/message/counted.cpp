// What one message of unknown size costs, counted by counted.test: rank 0 sends rank 1 messages of so many bytes of
// device or host memory, `--by message`, or `plain` by MPI_Send and MPI_Recv for comparison, or broadcasts them.
// MPI_Pcontrol marks what is counted, after a warm-up by MPI_Send.
#include <string_view>

#include "content.hpp"

using namespace message_test;

int main(int argc, char** argv) {
    constexpr int kRounds = 20, kTag = 6;
    MPI_Init(&argc, &argv);
    begin();
    const std::string_view by = argv[1];
    const gpu::Kind kind = std::string_view(argv[2]) == "device" ? gpu::Kind::kDevice : gpu::Kind::kHost;
    const std::size_t bytes = std::strtoul(argv[3], nullptr, 10);
    const int warm_up = std::atoi(argv[4]);
    Message message;
    message.number = 77;
    message.metadata_bytes = 24;
    message.bytes = bytes;
    message.kind = kind;
    const gpu::Memory memory(kind, message.payload());
    const auto plain = [&] {
        if (rank == 0)
            MPI_Send(memory.address(), static_cast<int>(bytes), MPI_BYTE, 1, kTag, MPI_COMM_WORLD);
        else
            MPI_Recv(memory.address(), static_cast<int>(bytes), MPI_BYTE, 0, kTag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    };
    for (int i = 0; i < warm_up; ++i)
        plain();
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Pcontrol(1);
    for (int i = 0; i < kRounds; ++i) {
        if (by == "plain") {
            plain();
        } else if (by == "message") {
            if (rank == 0)
                send(message, 1, kTag, MPI_COMM_WORLD);
            else
                receive(kind, 0, kTag, MPI_COMM_WORLD).is(message, "counted");
        } else {
            Bytes metadata = message.metadata();
            Received got;
            got.giver.kind = kind;
            if (rank == 0) {
                got.metadata_bytes = 24;
                got.payload = memory.address();
                got.bytes = static_cast<MPI_Count>(bytes);
                got.metadata = metadata;
            }
            got.code = MPIX_Bcast_message(got.metadata.data(), 24, &got.metadata_bytes, Giver::allocate, &got.giver,
                                          &got.payload, &got.bytes, 0, MPI_COMM_WORLD);
            if (rank != 0)
                got.is(message, "counted");
        }
    }
    MPI_Pcontrol(0);
    return end();
}
