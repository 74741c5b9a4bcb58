// MPIX_Bcast_message: from every root, in memory of another kind on each rank, what the root has comes to all; a rank
// without memory for it alone has an error.
// clang-format off
// launch: -n 4 --gpus 4 --relinked
// launch: -n 4 --gpus 2 --relinked -x VGPU_JITTER=8
// launch: -n 3 --relinked
// launch: -n 2 --gpus 2 --relinked -x SWITCHYARD_NCCL_THRESHOLD=1000
// test-timeout: 60
// clang-format on
#include "../../random_seed.hpp"
#include "content.hpp"

using namespace message_test;

namespace {

MPI_Comm comm = MPI_COMM_NULL;

int give(const Message& message, int root, MPI_Comm over) {
    Bytes metadata = message.metadata();
    const gpu::Memory memory(message.kind, message.payload());
    int metadata_bytes = static_cast<int>(metadata.size());
    void* payload = message.bytes == 0 ? nullptr : memory.address();
    auto bytes = static_cast<MPI_Count>(message.bytes);
    const int code =
        MPIX_Bcast_message(metadata.data(), 0, &metadata_bytes, nullptr, nullptr, &payload, &bytes, root, over);
    check(memory.read() == message.payload() && metadata == message.metadata(), "the root's memory has changed");
    return code;
}

Received get(gpu::Kind kind, int root, MPI_Comm over, bool refuses = false, int room = MPIX_MESSAGE_METADATA_MAX) {
    Received got;
    got.giver.kind = kind;
    got.giver.refuses = refuses;
    got.code = MPIX_Bcast_message(got.metadata.data(), room, &got.metadata_bytes, Giver::allocate, &got.giver,
                                  &got.payload, &got.bytes, root, over);
    return got;
}

void random(Dice dice, int rounds) {
    for (int i = 0; i < rounds; ++i) {
        const int root = static_cast<int>(dice() % static_cast<unsigned>(size));
        const Message message(dice(), 1 << 20);
        Dice own(dice() + static_cast<unsigned>(rank));
        const bool all_device = dice() % 2 == 0 && has_gpus;  // what NCCL carries
        Message sent = message;
        if (all_device)
            sent.kind = gpu::Kind::kDevice;
        if (rank == root)
            check(give(sent, root, comm) == MPI_SUCCESS, "broadcast of " + sent.text());
        else
            get(all_device ? gpu::Kind::kDevice : Message::draw_kind(own), root, comm).is(sent, "broadcast");
    }
}

// The last rank has no memory, or too little room for the metadata: the others do not notice.
void alone_in_trouble() {
    for (const std::size_t bytes : {std::size_t{100}, std::size_t{20000}, std::size_t{400000}}) {
        Message message;
        message.number = bytes;
        message.metadata_bytes = 50;
        message.bytes = bytes;
        message.kind = has_gpus ? gpu::Kind::kDevice : gpu::Kind::kHost;
        for (const bool refuses : {true, false}) {
            const std::string what = refuses ? "no memory" : "little room";
            if (rank == 0) {
                check(give(message, 0, comm) == MPI_SUCCESS, what + ": the root");
            } else if (rank < size - 1) {
                get(message.kind, 0, comm).is(message, what + ", beside");
            } else {
                const Received got = get(message.kind, 0, comm, refuses, refuses ? 50 : 20);
                check(got.error_class() == (refuses ? MPI_ERR_NO_MEM : MPI_ERR_TRUNCATE), what + ": " + got.text());
                check(got.metadata_bytes == 50 && got.giver.metadata == message.metadata(), what + ": metadata");
                check(got.bytes == static_cast<MPI_Count>(bytes) && (got.payload == nullptr) == refuses,
                      what + ": payload");
                if (!refuses)
                    got.has_payload(message.payload(), message.where(), what);
            }
        }
    }
}

// Nobody waits for a root that cannot send.
void wrong_root() {
    if (rank == 1) {
        int metadata_bytes = MPIX_MESSAGE_METADATA_MAX + 1, found = 0;
        void* payload = nullptr;
        MPI_Count bytes = 0;
        Bytes metadata(MPIX_MESSAGE_METADATA_MAX + 1);
        const int code =
            MPIX_Bcast_message(metadata.data(), 0, &metadata_bytes, nullptr, nullptr, &payload, &bytes, 1, comm);
        MPI_Error_class(code, &found);
        check(found == MPI_ERR_COUNT, "a root with too many metadata");
    } else {
        const Received got = get(gpu::Kind::kHost, 1, comm);
        check(got.error_class() == MPI_ERR_ARG, "from a root with too many metadata: " + got.text());
        check(got.text().find("MPIX_Bcast_message on rank ") != std::string::npos, "where: " + got.text());
        got.has_payload({}, -1, "from a root with too many metadata");
    }
}

void between_groups() {
    MPI_Comm half = MPI_COMM_NULL, inter = MPI_COMM_NULL;
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - rank % 2, 4, &inter);
    for (const std::size_t bytes : {std::size_t{30}, std::size_t{200000}}) {
        Message message;
        message.number = bytes;
        message.metadata_bytes = 8;
        message.bytes = bytes;
        message.kind = has_gpus ? gpu::Kind::kDevice : gpu::Kind::kHost;
        if (rank % 2 == 0)
            get(message.kind, 0, inter).is(message, "from the other group");
        else if (rank == 1)
            check(give(message, MPI_ROOT, inter) == MPI_SUCCESS, "to the other group");
        else
            check(get(message.kind, MPI_PROC_NULL, inter).code == MPI_SUCCESS, "beside the root");
    }
    MPI_Comm_free(&inter);
    MPI_Comm_free(&half);
}

}  // namespace

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    begin();
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    std::uint64_t seed = random_seed();
    MPI_Bcast(&seed, 1, MPI_UINT64_T, 0, comm);
    if (rank == 0)
        std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
    random(Dice(seed), 100);
    alone_in_trouble();
    wrong_root();
    between_groups();
    MPI_Comm_free(&comm);
    return end();
}
