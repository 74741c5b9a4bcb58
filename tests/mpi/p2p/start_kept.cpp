// Persistent receives into host memory, made before a probe for a large message from a device has met the messages sent
// ahead of it, and started afterwards: each gets its message all the same, by every call that completes requests, and
// its request stays the same handle.
// launch: -n 2 --gpus 2
// launch: -n 2 --gpus 2 -x LEVEL=3
#include <mpi.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <vector>

#include "../gpu.hpp"
#include "ways.hpp"

namespace {

constexpr int kLarge = 1 << 18;
enum Tag { kNumber = 5, kOdd, kEmpty, kLong, kColumn, kShort, kLateTag, kGo, kLargeTag, kRounds };

// As long as the library's envelopes; and so long that MPI does not send it at once.
constexpr int kOddBytes = 101, kLongInts = 12000, kRows = 8;

std::vector<int> numbers(int count, int round) {
    std::vector<int> all(static_cast<std::size_t>(count));
    std::iota(all.begin(), all.end(), 1000 * round + count);
    return all;
}

void send_ahead(int round, gpu::Memory& large) {
    std::vector<MPI_Request> requests;
    const auto send = [&](const void* data, int count, MPI_Datatype type, int tag) {
        MPI_Isend(data, count, type, 1, tag, MPI_COMM_WORLD, &requests.emplace_back());
    };
    const std::vector<char> odd(kOddBytes, static_cast<char>('a' + round));
    const std::vector<int> many = numbers(kLongInts, round), column = numbers(kRows, round);
    send(&round, 1, MPI_INT, kNumber);
    send(odd.data(), kOddBytes, MPI_CHAR, kOdd);
    send(nullptr, 0, MPI_INT, kEmpty);
    send(many.data(), kLongInts, MPI_INT, kLong);
    send(column.data(), kRows, MPI_INT, kColumn);
    send(column.data(), 2, MPI_INT, kShort);
    send(large.at(0), kLarge, MPI_BYTE, kLargeTag);
    MPI_Recv(nullptr, 0, MPI_INT, 1, kGo, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    send(&round, 1, MPI_INT, kLateTag);
    MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
}

// What rank 1 receives with, kept from round to round.
struct Receives {
    int number = 0, late = 0, one = 0;
    std::array<char, 200> odd{};
    std::vector<int> many = std::vector<int>(kLongInts);
    std::array<std::array<int, 3>, kRows> matrix{};
    std::vector<MPI_Request> requests = std::vector<MPI_Request>(7);

    Receives() {
        const auto make = [&](std::size_t place, void* data, int count, MPI_Datatype type, int tag) {
            MPI_Recv_init(data, count, type, tag % 2 == 0 ? MPI_ANY_SOURCE : 0, tag, MPI_COMM_WORLD, &requests[place]);
        };
        MPI_Datatype column = MPI_DATATYPE_NULL;
        MPI_Type_vector(kRows, 1, 3, MPI_INT, &column);
        MPI_Type_commit(&column);
        make(0, &number, 1, MPI_INT, kNumber);
        make(1, odd.data(), 200, MPI_CHAR, kOdd);
        make(2, nullptr, 0, MPI_INT, kEmpty);
        make(3, many.data(), kLongInts, MPI_INT, kLong);
        make(4, &matrix[0][1], 1, column, kColumn);
        make(5, &one, 1, MPI_INT, kShort);
        make(6, &late, 1, MPI_INT, kLateTag);
        MPI_Type_free(&column);
    }
    Receives(const Receives&) = delete;
    Receives& operator=(const Receives&) = delete;
    ~Receives() {
        for (MPI_Request& request : requests)
            MPI_Request_free(&request);
    }

    void clear() {
        number = late = one = -1;
        odd.fill('-');
        std::fill(many.begin(), many.end(), -1);
        matrix = {};
    }

    void check(int round, const std::string& what) const {
        ways::expect(number == round && late == round, what + ": the numbers");
        ways::expect(odd[0] == 'a' + round && odd[100] == 'a' + round && odd[101] == '-', what + ": the odd message");
        ways::expect(many == numbers(kLongInts, round), what + ": the long message");
        const std::vector<int> wanted = numbers(kRows, round);
        for (std::size_t row = 0; row < kRows; ++row)
            ways::expect(matrix[row] == std::array<int, 3>{0, wanted[row], 0}, what + ": the column");
    }
};

void probe_large() {
    MPI_Status status;
    int count = 0;
    MPI_Probe(0, kLargeTag, MPI_COMM_WORLD, &status);
    MPI_Get_count(&status, MPI_BYTE, &count);
    ways::expect(count == kLarge, "the probe says " + std::to_string(count) + " bytes");
}

void receive_large(gpu::Memory& large) {
    MPI_Recv(large.at(0), kLarge, MPI_BYTE, 0, kLargeTag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

void go() {
    MPI_Send(nullptr, 0, MPI_INT, 0, kGo, MPI_COMM_WORLD);
}

void by_every_way(Receives& receives, gpu::Memory& large) {
    const ways::Functions mpi{MPI_Wait, MPI_Waitany, MPI_Waitall, MPI_Waitsome,
                              MPI_Test, MPI_Testany, MPI_Testall, MPI_Testsome};
    int round = 0;
    for (const ways::Way way : ways::kWays) {
        receives.clear();
        probe_large();
        std::vector<MPI_Request> copies = receives.requests;
        MPI_Startall(static_cast<int>(copies.size()), receives.requests.data());
        go();
        const std::vector<ways::Said> said = ways::complete(mpi, way, copies);
        ways::expect(copies == receives.requests, std::string(ways::name(way)) + " changes the requests");
        receives.check(round, ways::name(way));
        const int bytes[] = {4, kOddBytes, 0, 4 * kLongInts, 4 * kRows, 8, 4};
        const int tags[] = {kNumber, kOdd, kEmpty, kLong, kColumn, kShort, kLateTag};
        for (std::size_t i = 0; i < said.size(); ++i) {
            const std::string what = std::string(ways::name(way)) + ", tag " + std::to_string(tags[i]);
            ways::expect(said[i].completed, what + ": not completed");
            ways::expect(said[i].error == (i == 5 ? MPI_ERR_TRUNCATE : MPI_SUCCESS),
                         what + ": error " + std::to_string(said[i].error));
            ways::compare(what, said[i].status, {.source = 0, .tag = tags[i], .bytes = bytes[i]});
        }
        receive_large(large);
        ++round;
    }
}

void ask_and_cancel(Receives& receives, int round) {
    MPI_Request& number = receives.requests[0];
    MPI_Status status;
    MPI_Start(&number);
    int done = 0, cancelled = 0, count = 0;
    while (done == 0)
        MPI_Request_get_status(number, &done, &status);
    ways::compare("MPI_Request_get_status", status, {.source = 0, .tag = kNumber, .bytes = 4});
    MPI_Wait(&number, &status);
    ways::expect(receives.number == round, "asked for and waited for");
    MPI_Wait(&number, &status);  // an inactive one
    ways::compare("MPI_Wait of an inactive request", status, {});

    MPI_Request& odd = receives.requests[1];
    MPI_Start(&odd);
    MPI_Cancel(&odd);
    MPI_Wait(&odd, &status);
    MPI_Test_cancelled(&status, &cancelled);
    MPI_Get_count(&status, MPI_CHAR, &count);
    ways::expect(cancelled == 0 && count == kOddBytes && receives.odd[100] == 'a' + round,
                 "a receive was cancelled whose message was there");

    MPI_Start(&receives.requests[4]);
    MPI_Test(&receives.requests[5], &done, MPI_STATUS_IGNORE);
    ways::expect(done == 1, "MPI_Test of an inactive request");
}

// The others of the round: by receives that do not persist, and one whose request is freed while it is active.
void free_active(Receives& receives, gpu::Memory& large, int round) {
    std::vector<int> many(kLongInts, -1);
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Recv_init(many.data(), kLongInts, MPI_INT, 0, kLong, MPI_COMM_WORLD, &request);
    MPI_Start(&request);
    MPI_Request_free(&request);
    ways::expect(request == MPI_REQUEST_NULL, "MPI_Request_free leaves the handle");
    MPI_Wait(&receives.requests[4], MPI_STATUS_IGNORE);
    ways::expect(receives.matrix[0][1] == numbers(kRows, round)[0], "the column of the last round");
    int both[2] = {};
    MPI_Sendrecv(nullptr, 0, MPI_INT, 0, kGo, both, 2, MPI_INT, 0, kShort, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    ways::expect(both[1] == numbers(kRows, round)[1], "MPI_Sendrecv of a kept message");
    MPI_Recv(nullptr, 0, MPI_INT, MPI_ANY_SOURCE, kEmpty, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Recv(&receives.late, 1, MPI_INT, 0, kLateTag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    receive_large(large);
    const std::vector<int> wanted = numbers(kLongInts, round);
    const double end = MPI_Wtime() + 30;
    for (int flag = 0; static_cast<volatile int&>(many.back()) != wanted.back() && MPI_Wtime() < end;)
        MPI_Iprobe(0, kRounds, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
    ways::expect(many == wanted, "a receive whose request was freed");
}

}  // namespace

int main(int argc, char** argv) {
    int provided = MPI_THREAD_SINGLE;
    const char* level = std::getenv("LEVEL");
    MPI_Init_thread(&argc, &argv, level != nullptr ? std::atoi(level) : MPI_THREAD_SINGLE, &provided);
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    gpu::Driver::get().use(rank % gpu::Driver::get().devices);
    gpu::Memory large(gpu::Kind::kDevice, kLarge);
    constexpr int kWays = static_cast<int>(std::size(ways::kWays));
    if (rank == 0) {
        for (int round = 0; round <= kWays; ++round)
            send_ahead(round, large);
    } else {
        Receives receives;
        by_every_way(receives, large);
        probe_large();
        receives.clear();
        ask_and_cancel(receives, kWays);
        free_active(receives, large, kWays);
    }
    MPI_Finalize();
    return ways::failures == 0 ? 0 : 1;
}
