// Messages of unknown size between random ranks, in memory of every kind on either end: what is received is what was
// sent, in the order of each sender, with wildcards too, and where several threads send and receive at once.
// clang-format off
// launch: -n 2 --gpus 2 --relinked
// launch: -n 4 --gpus 2 --relinked -x VGPU_JITTER=3
// launch: -n 2 --relinked
// launch: -n 2 --gpus 2 --relinked -x SWITCHYARD_P2P_COMM=pair -x SWITCHYARD_P2P_THRESHOLD=2000
// test-timeout: 120
// clang-format on
#include <algorithm>
#include <map>
#include <thread>

#include "../../random_seed.hpp"
#include "content.hpp"

using namespace message_test;

namespace {

std::uint64_t seed = 0;

// All ranks draw alike.
void in_turn(int rounds) {
    Dice dice(seed);
    for (int i = 0; i < rounds; ++i) {
        const int from = static_cast<int>(dice() % static_cast<unsigned>(size));
        const int to = (from + 1 + static_cast<int>(dice() % static_cast<unsigned>(size - 1))) % size;
        const int tag = static_cast<int>(dice() % 3);
        const Message message(dice());
        const gpu::Kind into = Message::draw_kind(dice);
        const bool any_source = dice() % 4 == 0 && size == 2, any_tag = dice() % 4 == 0 && size == 2;
        if (rank == from)
            check(send(message, to, tag, MPI_COMM_WORLD) == MPI_SUCCESS, "send of " + message.text());
        if (rank != to)
            continue;
        const Received got =
            receive(into, any_source ? MPI_ANY_SOURCE : from, any_tag ? MPI_ANY_TAG : tag, MPI_COMM_WORLD);
        got.is(message, "in turn " + std::to_string(i));
        status_is(got, from, tag, "in turn " + std::to_string(i));
    }
}

std::uint64_t number_of(int sender, int thread, int i) {
    return (seed << 32) + static_cast<std::uint64_t>(sender * 100000 + thread * 10000 + i);
}

// Rank 0 receives what all others send, by threads that each take any message. From each sending thread they come in
// order, which one receiving thread can tell.
void to_one(MPI_Comm comm, int threads, int rounds) {
    const auto sends = [&](int thread) {
        if (has_gpus)
            gpu::Driver::get().use(rank % gpu::Driver::get().devices);
        for (int i = 0; i < rounds; ++i)
            send(Message(number_of(rank, thread, i), 200000), 0, thread, comm);
    };
    const auto receives = [&](int thread) {
        if (has_gpus)
            gpu::Driver::get().use(rank % gpu::Driver::get().devices);
        Dice dice(seed + static_cast<unsigned>(thread));
        std::map<std::pair<int, int>, int> next;
        for (int i = 0; i < (size - 1) * rounds; ++i) {
            const Received got = receive(Message::draw_kind(dice), MPI_ANY_SOURCE, MPI_ANY_TAG, comm);
            std::uint64_t number = 0;
            std::memcpy(&number, got.metadata.data(), sizeof number);
            const Message message(number, 200000);
            got.is(message, "to one, thread " + std::to_string(thread));
            const int source = got.status.MPI_SOURCE, tag = got.status.MPI_TAG;
            int& at = next[{source, tag}];
            const int found = static_cast<int>(number - number_of(source, tag, 0));
            check(threads == 1 ? found == at : found >= at,
                  "number " + std::to_string(found) + " after " + std::to_string(at));
            at = found + 1;
        }
    };
    std::vector<std::thread> all;
    for (int thread = 0; thread < threads; ++thread)
        all.emplace_back([&, thread] { rank == 0 ? receives(thread) : sends(thread); });
    for (std::thread& thread : all)
        thread.join();
    MPI_Barrier(comm);  // what follows has tags of its own
}

// A thread waits for a message that is sent only when another thread has received one: neither keeps the other out.
void apart(MPI_Comm comm) {
    const Message first(number_of(7, 7, 1)), second(number_of(7, 7, 2));
    if (rank == 0) {
        std::thread waits([&] { receive(gpu::Kind::kHost, 1, 1, comm).is(second, "apart, second"); });
        receive(gpu::Kind::kHost, 1, 2, comm).is(first, "apart, first");
        MPI_Send(nullptr, 0, MPI_BYTE, 1, 3, comm);
        waits.join();
    } else if (rank == 1) {
        send(first, 0, 2, comm);
        MPI_Recv(nullptr, 0, MPI_BYTE, 0, 3, comm, MPI_STATUS_IGNORE);
        send(second, 0, 1, comm);
    }
}

void to_self(int rounds) {
    for (int i = 0; i < rounds; ++i) {
        const Message message(number_of(rank, 8, i));
        std::thread sends([&] {
            if (has_gpus)
                gpu::Driver::get().use(rank % gpu::Driver::get().devices);
            send(message, 0, 5, MPI_COMM_SELF);
        });
        Dice dice(number_of(rank, 9, i));
        receive(Message::draw_kind(dice), 0, 5, MPI_COMM_SELF).is(message, "to self");
        sends.join();
    }
}

// From each group to the other one.
void between_groups() {
    MPI_Comm half = MPI_COMM_NULL, inter = MPI_COMM_NULL;
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - rank % 2, 4, &inter);
    const Message there(number_of(3, 3, 3)), back(number_of(3, 3, 4));
    int mine = -1;
    MPI_Comm_rank(half, &mine);
    for (const int turn : {0, 1}) {
        const Message& message = turn == 0 ? there : back;
        if (rank % 2 == turn)
            send(message, mine, 6, inter);
        else
            receive(gpu::Kind::kHost, mine, 6, inter).is(message, "between groups");
    }
    MPI_Comm_free(&inter);
    MPI_Comm_free(&half);
}

}  // namespace

int main(int argc, char** argv) {
    int provided = 0;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    begin();
    seed = random_seed();
    MPI_Bcast(&seed, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD);
    if (rank == 0)
        std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
    in_turn(120);
    MPI_Comm comm = MPI_COMM_NULL;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    to_one(comm, 1, 60);
    if (size % 2 == 0)
        between_groups();
    if (provided == MPI_THREAD_MULTIPLE) {
        to_one(comm, 2, 40);
        apart(comm);
        to_self(10);
    }
    MPI_Comm_free(&comm);
    return end();
}
