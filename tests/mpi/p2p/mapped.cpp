// Random messages in device memory, large ones and of types with gaps too, many at a time and in both directions. What
// arrives is compared with arithmetic; what fails is said. For mapped.test, which sees in the report how they have
// gone. The argument is the number of rounds; with SWY_GPUS=N ranks take the first N GPUs in turn, otherwise all take
// the first.
#include <mpi.h>

#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#include "../../random_seed.hpp"
#include "../gpu.hpp"

namespace {

int rank = 0, size = 0, failures = 0;

std::byte value(int from, int number, std::size_t at) {
    return static_cast<std::byte>(static_cast<std::size_t>(from * 7 + number * 31) + at * 13 + (at >> 9));
}

// A message of `blocks` blocks of `length` bytes, `stride` bytes apart.
struct Shape {
    int blocks, length, stride;
    std::size_t extent() const {
        return static_cast<std::size_t>(blocks - 1) * static_cast<std::size_t>(stride) +
               static_cast<std::size_t>(length);
    }
    std::size_t bytes() const { return static_cast<std::size_t>(blocks) * static_cast<std::size_t>(length); }
    MPI_Datatype type() const {
        MPI_Datatype made = MPI_DATATYPE_NULL;
        MPI_Type_vector(blocks, length, stride, MPI_BYTE, &made);
        MPI_Type_commit(&made);
        return made;
    }
    // Where byte `i` of the message lies.
    std::size_t at(std::size_t i) const {
        const auto block = i / static_cast<std::size_t>(length);
        return block * static_cast<std::size_t>(stride) + i % static_cast<std::size_t>(length);
    }
};

Shape draw(std::mt19937& draws, std::size_t bytes) {
    if (draws() % 2 == 0)
        return {1, static_cast<int>(bytes), static_cast<int>(bytes)};
    const int length = 1 << (draws() % 12 + 4);
    const int blocks = static_cast<int>(bytes) / length + 1;
    return {blocks, length, length + static_cast<int>(draws() % 64)};
}

struct Message {
    int number, peer;
    Shape mine, theirs;
    std::vector<gpu::Memory> memory;
    MPI_Datatype type = MPI_DATATYPE_NULL;
    bool sends = false;
};

void check(const Message& message) {
    const std::vector<std::byte> got = message.memory.front().read();
    const std::size_t bytes = message.theirs.bytes();
    for (std::size_t i = 0; i < bytes; ++i)
        if (got[message.mine.at(i)] != value(message.peer, message.number, i)) {
            std::printf("rank %d, message %d of %zu bytes from rank %d: wrong at byte %zu\n", rank, message.number,
                        bytes, message.peer, i);
            ++failures;
            return;
        }
}

void say(const Message& message, int code) {
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    MPI_Error_string(code, text, &length);
    std::fprintf(stderr, "rank %d, message %d: %s\n", rank, message.number, text);
}

}  // namespace

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    unsigned seed = random_seed();
    MPI_Bcast(&seed, 1, MPI_UNSIGNED, 0, MPI_COMM_WORLD);
    if (rank == 0)
        std::printf("SWY_RANDOM_SEED=%u\n", seed);
    std::mt19937 draws(seed);
    const char* gpus = std::getenv("SWY_GPUS");
    gpu::Driver::get().use(gpus != nullptr ? rank % std::atoi(gpus) : 0);
    const int rounds = argc > 1 ? std::atoi(argv[1]) : 12;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    for (int round = 0; round < rounds; ++round) {
        std::vector<Message> messages;
        const int count = static_cast<int>(draws() % 12) + 1;
        for (int i = 0; i < count; ++i) {  // all ranks draw the same
            const int from = static_cast<int>(draws() % static_cast<unsigned>(size));
            const int to = (from + 1 + static_cast<int>(draws() % static_cast<unsigned>(size - 1))) % size;
            const std::size_t bytes = 65536 + draws() % (i % 4 == 0 ? 20000000 : 300000);
            const Shape sent = draw(draws, bytes);
            const bool alike = draws() % 2 == 0;
            const Shape other = draw(draws, sent.bytes());
            const Shape received = alike ? sent : other;
            if (rank != from && rank != to)
                continue;
            Message& message = messages.emplace_back();
            message.number = round * 100 + i;
            message.sends = rank == from;
            message.peer = rank == from ? to : from;
            message.mine = rank == from ? sent : received;
            message.theirs = rank == from ? received : sent;
            std::vector<std::byte> content(message.mine.extent());
            if (message.sends)
                for (std::size_t b = 0; b < sent.bytes(); ++b)
                    content[sent.at(b)] = value(rank, message.number, b);
            message.memory.emplace_back(gpu::Kind::kDevice, content);
            message.type = message.mine.type();
        }
        std::vector<MPI_Request> requests(messages.size());
        for (std::size_t i = 0; i < messages.size(); ++i) {
            const Message& m = messages[i];
            if (m.sends)
                MPI_Isend(m.memory.front().at(0), 1, m.type, m.peer, m.number, MPI_COMM_WORLD, &requests[i]);
            else
                MPI_Irecv(m.memory.front().at(0), 1, m.type, m.peer, m.number, MPI_COMM_WORLD, &requests[i]);
        }
        std::vector<MPI_Status> statuses(messages.size());
        const int code = MPI_Waitall(static_cast<int>(requests.size()), requests.data(), statuses.data());
        for (std::size_t i = 0; i < messages.size(); ++i) {
            const bool failed = code != MPI_SUCCESS && statuses[i].MPI_ERROR != MPI_SUCCESS;
            if (failed)
                say(messages[i], statuses[i].MPI_ERROR);
            else if (!messages[i].sends)
                check(messages[i]);
            MPI_Type_free(&messages[i].type);
        }
    }
    int all = 0;
    MPI_Allreduce(&failures, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0 && all == 0)
        std::printf("all compared\n");
    std::fflush(stdout);
    MPI_Finalize();
    return all == 0 ? 0 : 1;
}
