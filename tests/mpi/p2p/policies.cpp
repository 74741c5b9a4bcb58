// Patterns of point-to-point messages in device memory that end in a deadlock where operations on NCCL communicators
// are launched in orders that do not fit, or where one transfer waits for another. Every payload is checked against
// arithmetic. Options: --pattern NAME (else all that need no more), --rounds N.
// launch: -n 3 --gpus 3 -x SWITCHYARD_P2P_COMM=pair -- --rounds 12
// launch: -n 3 --gpus 3 -x SWITCHYARD_P2P_COMM=shared -- --rounds 12
// launch: -n 4 --gpus 4 -x SWITCHYARD_P2P_COMM=auto -x SWITCHYARD_P2P_PAIR_COMM_AFTER=1M -- --rounds 8
// launch: -n 4 --gpus 4 -x SWITCHYARD_P2P_COMM=pair -x VGPU_JITTER=3 -- --rounds 6
// launch: -n 4 --gpus 4 -x SWITCHYARD_P2P_COMM=shared -x VGPU_JITTER=5 -- --rounds 6
// launch: -n 3 --gpus 3 -x SWITCHYARD_P2P_COMM=auto -x SWITCHYARD_P2P_PAIR_COMM_AFTER=512K -x VGPU_JITTER=9 -- --rounds 8
// launch: -n 5 --gpus 5 -x SWITCHYARD_P2P_COMM=pair -x SWITCHYARD_P2P_PAIR_COMMS=2 -- --rounds 6
// launch: -n 4 --gpus 2 -x SWITCHYARD_P2P_COMM=pair -- --rounds 4
// launch: -n 2 --gpus 2 -x SWITCHYARD_P2P_COMM=pair -- --pattern quiet-sender
#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <deque>
#include <random>
#include <string_view>
#include <vector>

#include "../gpu.hpp"

namespace {

int rank = 0, size = 0, rounds = 4;
int bad = 0;

constexpr std::size_t kLarge = 96 * 1024;  // over SWITCHYARD_P2P_THRESHOLD

// Word `i` of the message with that tag between two ranks.
std::uint32_t word(int from, int to, int tag, std::size_t i) {
    const std::uint32_t seed = static_cast<std::uint32_t>(from * 131 + to * 17 + tag * 10007);
    return (seed + static_cast<std::uint32_t>(i)) * 2654435761u;
}

std::vector<std::byte> content(int from, int to, int tag, std::size_t bytes) {
    std::vector<std::byte> all(bytes);
    for (std::size_t i = 0; i < bytes / 4; ++i) {
        const std::uint32_t value = word(from, to, tag, i);
        std::memcpy(&all[i * 4], &value, 4);
    }
    return all;
}

// Messages under way from and to this rank, and their buffers.
class Messages {
  public:
    void send(int to, int tag, std::size_t bytes) {
        buffers_.emplace_back(gpu::Kind::kDevice, content(rank, to, tag, bytes));
        expected_.emplace_back();
        MPI_Isend(buffers_.back().at(0), static_cast<int>(bytes), MPI_BYTE, to, tag, MPI_COMM_WORLD, add());
    }
    void receive(int from, int tag, std::size_t bytes) {
        buffers_.emplace_back(gpu::Kind::kDevice, std::vector<std::byte>(bytes));
        expected_.push_back(content(from, rank, tag, bytes));
        MPI_Irecv(buffers_.back().at(0), static_cast<int>(bytes), MPI_BYTE, from, tag, MPI_COMM_WORLD, add());
    }
    void finish(const char* pattern, bool backwards = false) {
        if (backwards)
            for (auto it = requests_.rbegin(); it != requests_.rend(); ++it)
                MPI_Wait(&*it, MPI_STATUS_IGNORE);
        else
            MPI_Waitall(static_cast<int>(requests_.size()), requests_.data(), MPI_STATUSES_IGNORE);
        for (std::size_t i = 0; i < buffers_.size(); ++i)
            if (!expected_[i].empty() && buffers_[i].read() != expected_[i] && bad++ == 0)
                std::fprintf(stderr, "rank %d: %s: message %zu is wrong\n", rank, pattern, i);
        requests_.clear();
        buffers_.clear();
        expected_.clear();
    }

  private:
    MPI_Request* add() {
        requests_.push_back(MPI_REQUEST_NULL);
        return &requests_.back();
    }
    std::vector<MPI_Request> requests_;
    std::deque<gpu::Memory> buffers_;
    std::vector<std::vector<std::byte>> expected_;
};

// Gives what is set up in the background its time.
void settle(int turns = 150) {
    for (int i = 0; i < turns; ++i) {
        usleep(1000);
        MPI_Barrier(MPI_COMM_WORLD);
    }
}

void allreduce(const char* pattern) {
    constexpr int kCount = 32768;
    const std::vector<float> mine(kCount, static_cast<float>(rank + 1));
    const gpu::Memory buffer(gpu::Kind::kDevice, kCount * sizeof(float));
    gpu::Driver::get().copy(buffer.at(0), mine.data(), kCount * sizeof(float));
    MPI_Allreduce(MPI_IN_PLACE, buffer.at(0), kCount, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    float sum = 0;
    gpu::Driver::get().copy(&sum, buffer.at((kCount - 1) * sizeof(float)), sizeof sum);
    if (sum != static_cast<float>(size * (size + 1)) / 2 && bad++ == 0)
        std::fprintf(stderr, "rank %d: %s: the sum is %g\n", rank, pattern, static_cast<double>(sum));
}

// Blocking calls around a ring: one rank sends first, the others receive first.
void cycle(int round) {
    const int right = (rank + 1) % size, left = (rank + size - 1) % size;
    const std::size_t bytes = kLarge * static_cast<std::size_t>(round % 3 + 1);
    const gpu::Memory out(gpu::Kind::kDevice, content(rank, right, round, bytes));
    const gpu::Memory in(gpu::Kind::kDevice, bytes);
    const auto send = [&] { MPI_Send(out.at(0), static_cast<int>(bytes), MPI_BYTE, right, round, MPI_COMM_WORLD); };
    if (rank == round % size)
        send();
    MPI_Recv(in.at(0), static_cast<int>(bytes), MPI_BYTE, left, round, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (rank != round % size)
        send();
    if (in.read() != content(left, rank, round, bytes) && bad++ == 0)
        std::fprintf(stderr, "rank %d: cycle: round %d is wrong\n", rank, round);
}

// The others, in an order that is this rank's own.
std::vector<int> shuffled_peers(std::mt19937& random) {
    std::vector<int> peers;
    for (int peer = 0; peer < size; ++peer)
        if (peer != rank)
            peers.push_back(peer);
    std::shuffle(peers.begin(), peers.end(), random);
    return peers;
}

// Every rank posts its part in an order of its own.
void all_to_all(int round) {
    Messages messages;
    std::mt19937 random(static_cast<unsigned>(round * 100 + rank));
    const bool receives_first = random() % 2 == 0;
    const auto receive_all = [&] {
        for (const int peer : shuffled_peers(random))
            messages.receive(peer, round, kLarge);
    };
    if (receives_first)
        receive_all();
    for (const int peer : shuffled_peers(random))
        messages.send(peer, round, kLarge);
    if (!receives_first)
        receive_all();
    messages.finish("all-to-all");
}

void both_directions(int round) {
    Messages messages;
    for (int step = 1; step < size; ++step) {
        const int peer = rank ^ step;
        if (peer >= size)
            continue;
        for (int tag = 0; tag < 3; ++tag) {
            messages.send(peer, round * 10 + tag, kLarge);
            messages.receive(peer, round * 10 + tag, kLarge);
        }
    }
    messages.finish("both directions", round % 2 != 0);
}

// Hundreds at once; the receives are posted from the last to the first, and waited for so.
void outstanding() {
    constexpr int kMessages = 120;
    const int right = (rank + 1) % size, left = (rank + size - 1) % size;
    Messages messages;
    for (int tag = 0; tag < kMessages; ++tag)
        messages.send(right, tag, kLarge - static_cast<std::size_t>(tag) * 256);
    for (int tag = kMessages - 1; tag >= 0; --tag)
        messages.receive(left, tag, kLarge - static_cast<std::size_t>(tag) * 256);
    messages.finish("outstanding", true);
}

// Collectives on the same communicator between the beginning and the end of messages.
void among_collectives(int round) {
    Messages messages;
    for (int peer = 0; peer < size; ++peer)
        if (peer != rank)
            messages.receive(peer, round, kLarge);
    if (rank % 2 == 0)
        allreduce("among collectives");
    for (int peer = 0; peer < size; ++peer)
        if (peer != rank)
            messages.send(peer, round, kLarge);
    if (rank % 2 != 0)
        allreduce("among collectives");
    allreduce("among collectives");
    messages.finish("among collectives");
}

void some_turns(int turns) {
    for (int turn = 0; turn < turns; ++turn) {
        int there = 0;
        MPI_Iprobe(MPI_ANY_SOURCE, 99999, MPI_COMM_WORLD, &there, MPI_STATUS_IGNORE);
    }
}

// The program waits for all of its GPU, outside MPI, while messages are under way in both directions.
void device_wait(int round) {
    Messages messages;
    for (int peer = 0; peer < size; ++peer)
        if (peer != rank)
            messages.receive(peer, round, kLarge);
    for (int peer = 0; peer < size; ++peer)
        if (peer != rank)
            messages.send(peer, round, kLarge);
    some_turns(round % 7);
    gpu::Driver::get().synchronize();
    messages.finish("device wait");
}

// The same while a collective is under way that does not block: it may be launched before the messages of its
// communicator or after them, but alike on all ranks.
void device_wait_in_collective(int round) {
    constexpr int kCount = 32768;
    Messages messages;
    const gpu::Memory sum(gpu::Kind::kDevice, kCount * sizeof(float));
    const std::vector<float> mine(kCount, static_cast<float>(rank + 1));
    gpu::Driver::get().copy(sum.at(0), mine.data(), kCount * sizeof(float));
    MPI_Request request = MPI_REQUEST_NULL;
    for (int peer = 0; peer < size; ++peer)
        if (peer != rank && (rank + round) % 2 == 0)
            messages.send(peer, round, kLarge);
    for (int peer = 0; peer < size; ++peer)
        if (peer != rank && (peer + round) % 2 == 0)
            messages.receive(peer, round, kLarge);
    some_turns(20 * (round % 5));
    MPI_Iallreduce(MPI_IN_PLACE, sum.at(0), kCount, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, &request);
    some_turns(40 * (round % 7));
    gpu::Driver::get().synchronize();
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    messages.finish("device wait in a collective");
    float last = 0;
    gpu::Driver::get().copy(&last, sum.at((kCount - 1) * sizeof(float)), sizeof last);
    if (last != static_cast<float>(size * (size + 1)) / 2 && bad++ == 0)
        std::fprintf(stderr, "rank %d: device wait in a collective: the sum is %g\n", rank, static_cast<double>(last));
}

std::atomic<bool> opened{false};
void wait_until_opened(void*) {
    while (!opened)
        usleep(1000);
}

void receive_behind_work(int tag, int go) {
    const gpu::Memory in(gpu::Kind::kDevice, kLarge);  // allocated first: afterwards the device is busy
    auto* queue = gpu::Driver::get().call<int(void*, void (*)(void*), void*)>("cuLaunchHostFunc");
    gpu::Driver::check("cuLaunchHostFunc", queue(nullptr, wait_until_opened, nullptr));
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Irecv(in.at(0), kLarge, MPI_BYTE, 0, tag, MPI_COMM_WORLD, &request);
    for (int i = 0; i < 100; ++i) {
        int there = 0;
        MPI_Test(&request, &there, MPI_STATUS_IGNORE);
        usleep(1000);
    }
    MPI_Send(nullptr, 0, MPI_BYTE, 2, go, MPI_COMM_WORLD);
    MPI_Recv(nullptr, 0, MPI_BYTE, 2, go, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    opened = true;
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    if (in.read() != content(0, rank, tag, kLarge) && bad++ == 0)
        std::fprintf(stderr, "rank %d: overlap: the message is wrong\n", rank);
}

// Rank 0 sends to all others until its lanes are there.
void make_lanes_from_first() {
    for (int round = 0; round < 3; ++round) {
        Messages messages;
        for (int peer = 1; peer < size && rank == 0; ++peer)
            messages.send(peer, round, kLarge);
        if (rank != 0)
            messages.receive(0, round, kLarge);
        messages.finish("first messages");
        settle();
    }
}

// Rank 1 waits for its whole GPU between the beginning and the end of a receive, and rank 0 does nothing for it
// meanwhile: nothing that waits for rank 0 may be on the GPU.
void quiet_sender() {
    make_lanes_from_first();
    constexpr int kTag = 79;
    MPI_Win window = MPI_WIN_NULL;
    void* shared = nullptr;
    MPI_Win_allocate_shared(rank == 0 ? sizeof(std::atomic<int>) : 0, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &shared,
                            &window);
    MPI_Aint bytes = 0;
    int unit = 0;
    MPI_Win_shared_query(window, 0, &bytes, &unit, &shared);
    auto* waited = static_cast<std::atomic<int>*>(shared);
    if (rank == 0)
        *waited = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    Messages messages;
    if (rank == 0)
        messages.send(1, kTag, kLarge);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        while (*waited == 0)
            usleep(1000);
    if (rank == 1) {
        usleep(100000);  // rank 0 has left the barrier
        messages.receive(0, kTag, kLarge);
        for (int i = 0; i < 50; ++i) {
            int there = 0;
            MPI_Iprobe(0, kTag + 1, MPI_COMM_WORLD, &there, MPI_STATUS_IGNORE);
            usleep(1000);
        }
        gpu::Driver::get().synchronize();
        *waited = 1;
    }
    messages.finish("quiet sender");
    MPI_Win_free(&window);
}

// Rank 1 has work on its GPU before its receive from rank 0, which ends only when rank 2 has all of its message from
// rank 0: the transfer to rank 1 is launched and waits, the later one to rank 2 must not.
void overlap() {
    make_lanes_from_first();
    constexpr int kTag = 77, kGo = 78;
    if (rank == 0) {
        Messages messages;
        messages.send(1, kTag, kLarge);
        messages.send(2, kTag, kLarge);
        messages.finish("overlap");
    } else if (rank == 1) {
        receive_behind_work(kTag, kGo);
    } else if (rank == 2) {
        MPI_Recv(nullptr, 0, MPI_BYTE, 1, kGo, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        Messages messages;
        messages.receive(0, kTag, kLarge);
        messages.finish("overlap");
        MPI_Send(nullptr, 0, MPI_BYTE, 1, kGo, MPI_COMM_WORLD);
    }
}

// Each rank's partner changes after a while, so that lanes must end for others.
void turns() {
    for (int distance = 1; distance < size; ++distance)
        for (int round = 0; round < 30; ++round) {
            const int to = (rank + distance) % size, from = (rank + size - distance) % size;
            Messages messages;
            messages.send(to, round, kLarge);
            messages.receive(from, round, kLarge);
            messages.finish("turns");
            if (round % 10 == 0)
                settle(40);
        }
}

void everything() {
    for (int round = 0; round < rounds; ++round) {
        cycle(round);
        all_to_all(round);
        both_directions(round);
        among_collectives(round);
        device_wait(round);
        device_wait_in_collective(round);
    }
    outstanding();
}

struct Pattern {
    std::string_view name;
    void (*run)();
};
template <void (*Round)(int)>
void repeat() {
    for (int round = 0; round < rounds; ++round)
        Round(round);
}
constexpr Pattern kPatterns[] = {
    {"all", everything},
    {"cycle", repeat<cycle>},
    {"all-to-all", repeat<all_to_all>},
    {"both-directions", repeat<both_directions>},
    {"among-collectives", repeat<among_collectives>},
    {"device-wait", repeat<device_wait>},
    {"device-wait-in-collective", repeat<device_wait_in_collective>},
    {"outstanding", outstanding},
    {"overlap", overlap},
    {"quiet-sender", quiet_sender},
    {"turns", turns},
};

}  // namespace

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    std::string_view wanted = "all";
    for (int i = 1; i + 1 < argc; i += 2) {
        if (std::string_view(argv[i]) == "--pattern")
            wanted = argv[i + 1];
        else if (std::string_view(argv[i]) == "--rounds")
            rounds = std::atoi(argv[i + 1]);
    }
    gpu::Driver& driver = gpu::Driver::get();
    driver.use(rank % driver.devices);
    allreduce("the first call");  // gives the communicator an NCCL communicator, where it can have one
    const auto* pattern = std::find_if(std::begin(kPatterns), std::end(kPatterns),
                                       [&](const Pattern& one) { return one.name == wanted; });
    if (pattern == std::end(kPatterns)) {
        std::fprintf(stderr, "no such pattern\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    pattern->run();
    MPI_Finalize();
    return bad == 0 ? 0 : 1;
}
