// One collective on device memory over and over, while the driver or NCCL fails on a rank (VGPU_FAULTS): every rank
// says which rounds have failed and why, and whatever returns MPI_SUCCESS is compared with arithmetic. In a round that
// fails anywhere nothing more may fail than that. Driven by staged.test: rounds CALL FORM COUNT [in-place] [warm]
// [host=RANK] [other=RANK] [rounds=N] [pause=SECONDS]
//   warm       a first call over NCCL, so that calls that do not block agree
//   host=RANK  which rank passes host memory
//   other=RANK which rank makes MPI_Bcast in the last round but one
//   pause=SECONDS  before each round, which rank 0 then tells on standard output
#include <mpi.h>
#include <mpix_switchyard.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "../../collective_forms.hpp"
#include "../gpu.hpp"

namespace {

int rank = 0, size = 0, wrong = 0;
bool multi = false;

std::vector<std::byte> ints(std::size_t count, const std::function<int(std::size_t)>& value) {
    std::vector<std::byte> bytes(count * sizeof(int));
    for (std::size_t i = 0; i < count; ++i) {
        const int one = value(i);
        std::memcpy(bytes.data() + i * sizeof one, &one, sizeof one);
    }
    return bytes;
}

// The buffers of one round, never freed: a copy may never end.
struct Round {
    int number;
    int count;
    bool in_place;
    MPI_Comm comm;
    gpu::Memory& in;
    gpu::Memory& out;

    const void* sent() const { return in_place ? MPI_IN_PLACE : in.address(); }
};

// What a rank contributes in a round, and what all contribute together.
int given(int round, int from) {
    return 100 * round + from + 1;
}
int sum(int round, int ranks) {
    int all = 0;
    for (int r = 0; r < ranks; ++r)
        all += given(round, r);
    return all;
}

struct Row {
    std::function<int(const Round&)> call;
    std::function<int(int round, int block)> result;  // of each block; -1: nothing has been written
    bool blocks = false;                              // the result has one of each rank
};

constexpr int kUntouched = -1;

int allreduce(const Round& r) {
    if (!multi)
        return forms::Allreduce(r.sent(), r.out.address(), r.count, MPI_INT, MPI_SUM, r.comm);
    const void* const in[] = {r.in.address()};
    void* const out[] = {r.out.address()};
    const auto* list = r.in_place ? static_cast<const void* const*>(MPI_IN_PLACE) : in;
    if (forms::current == forms::Form::kBlocking)
        return MPIX_Allreduce_multi(list, out, 1, r.count, MPI_INT, MPI_SUM, r.comm);
    MPI_Request request = MPI_REQUEST_NULL;
    const int code = MPIX_Iallreduce_multi(list, out, 1, r.count, MPI_INT, MPI_SUM, r.comm, &request);
    return code == MPI_SUCCESS ? MPI_Wait(&request, MPI_STATUS_IGNORE) : code;
}

std::map<std::string, Row> rows() {
    const auto of_all = [](int round, int) { return sum(round, size); };
    const auto of_block = [](int round, int block) { return given(round, block); };
    const auto at_root = [](int value) { return rank == 0 ? value : kUntouched; };
    return {
        {"allreduce", {allreduce, of_all}},
        {"reduce",
         {[](const Round& r) {
              const bool root = rank == 0;
              return forms::Reduce(root ? r.sent() : r.in.address(), r.out.address(), r.count, MPI_INT, MPI_SUM, 0,
                                   r.comm);
          },
          [=](int round, int) { return at_root(sum(round, size)); }}},
        {"bcast",  // from rank 1
         {[](const Round& r) {
              return forms::Bcast(rank == 1 ? r.in.address() : r.out.address(), r.count, MPI_INT, 1, r.comm);
          },
          [](int round, int) { return rank == 1 ? kUntouched : given(round, 1); }}},
        {"scan",
         {[](const Round& r) { return forms::Scan(r.sent(), r.out.address(), r.count, MPI_INT, MPI_SUM, r.comm); },
          [](int round, int) { return sum(round, rank + 1); }}},
        {"allgather",
         {[](const Round& r) {
              return forms::Allgather(r.in.address(), r.count, MPI_INT, r.out.address(), r.count, MPI_INT, r.comm);
          },
          of_block, true}},
        {"alltoall",
         {[](const Round& r) {
              return forms::Alltoall(r.in.address(), r.count, MPI_INT, r.out.address(), r.count, MPI_INT, r.comm);
          },
          of_block, true}},
        {"gatherv",
         {[](const Round& r) {
              static std::vector<int> counts, starts;
              counts.assign(static_cast<std::size_t>(size), r.count);
              starts.clear();
              for (int i = 0; i < size; ++i)
                  starts.push_back(i * r.count);
              return forms::Gatherv(r.in.address(), r.count, MPI_INT, r.out.address(), counts.data(), starts.data(),
                                    MPI_INT, 0, r.comm);
          },
          [=](int round, int block) { return at_root(given(round, block)); }, true}},
        {"neighbours",  // before and behind in a ring
         {[](const Round& r) {
              return forms::Neighbor_allgather(r.in.address(), r.count, MPI_INT, r.out.address(), r.count, MPI_INT,
                                               r.comm);
          },
          [](int round, int block) {
              return block > 1 ? kUntouched : given(round, (rank + (block == 0 ? size - 1 : 1)) % size);
          },
          true}},
        {"groups",  // a sum of the other one's
         {[](const Round& r) {
              return forms::Allreduce(r.in.address(), r.out.address(), r.count, MPI_INT, MPI_SUM, r.comm);
          },
          [](int round, int) { return rank == 0 ? sum(round, size) - given(round, 0) : given(round, 0); }}},
    };
}

MPI_Comm communicator(const std::string& call) {
    MPI_Comm comm = MPI_COMM_WORLD;
    if (call == "neighbours") {
        const int periodic = 1;
        MPI_Cart_create(MPI_COMM_WORLD, 1, &size, &periodic, 0, &comm);
    }
    if (call == "groups") {  // rank 0, and all others
        MPI_Comm own = MPI_COMM_NULL;
        MPI_Comm_split(MPI_COMM_WORLD, rank == 0 ? 0 : 1, rank, &own);
        MPI_Intercomm_create(own, 0, MPI_COMM_WORLD, rank == 0 ? 1 : 0, 7, &comm);
    }
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    return comm;
}

gpu::Memory& filled(gpu::Kind kind, std::size_t count, const std::function<int(std::size_t)>& value) {
    return *new gpu::Memory(kind, ints(count, value));
}

void say(int round, int code) {
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    MPI_Error_string(code, text, &length);
    std::fprintf(stderr, "rank %d, round %d: %s\n", rank, round, text);
}

void check(const Row& row, const Round& r) {
    const auto count = static_cast<std::size_t>(r.count);
    const std::size_t written = row.blocks ? static_cast<std::size_t>(size) : 1;
    const auto expected = ints(count * static_cast<std::size_t>(size), [&](std::size_t i) {
        return i / count < written ? row.result(r.number, static_cast<int>(i / count)) : kUntouched;
    });
    if (r.out.read() == expected)
        return;
    std::fprintf(stderr, "rank %d: round %d is MPI_SUCCESS over wrong data\n", rank, r.number);
    ++wrong;
}

void pause_before(int round, double seconds) {
    if (rank == 0) {
        std::printf("round %d\n", round);
        std::fflush(stdout);
    }
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

}  // namespace

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const std::string call = argc > 1 ? argv[1] : "allreduce", form = argc > 2 ? argv[2] : "blocking";
    const int count = argc > 3 ? std::atoi(argv[3]) : 100;
    bool in_place = false, warm = false, host = false, other = false;
    int rounds = 5;
    double pause = 0;
    for (int i = 4; i < argc; ++i) {
        const std::string word = argv[i];
        if (word.starts_with("rounds="))
            rounds = std::stoi(word.substr(word.find('=') + 1));
        if (word.starts_with("pause="))
            pause = std::stod(word.substr(word.find('=') + 1));
        in_place |= word == "in-place";
        warm |= word == "warm";
        host |= word == "host=" + std::to_string(rank);
        other |= word == "other=" + std::to_string(rank);
    }
    multi = form == "multi" || form == "begun-multi";
    if (form.starts_with("begun"))
        forms::current = forms::Form::kNonBlocking;
    if (form == "persistent")
        forms::current = forms::Form::kPersistent;
    gpu::Driver::get().use(rank % gpu::Driver::get().devices);
    const MPI_Comm comm = communicator(call);
    const Row row = rows().at(call);
    const auto kind = host ? gpu::Kind::kHost : gpu::Kind::kDevice;
    if (warm) {
        constexpr std::size_t kEnough = 10000;
        auto& all = filled(gpu::Kind::kDevice, kEnough, [](std::size_t) { return 1; });
        MPI_Allreduce(MPI_IN_PLACE, all.address(), kEnough, MPI_INT, MPI_SUM, comm);
    }
    for (int round = 0; round < rounds; ++round) {
        if (pause > 0)
            pause_before(round, pause);
        const std::size_t all = static_cast<std::size_t>(count) * static_cast<std::size_t>(size);
        const auto mine = [&](std::size_t) { return given(round, rank); };
        const auto before = [&](std::size_t i) {
            return in_place && i < static_cast<std::size_t>(count) ? given(round, rank) : kUntouched;
        };
        const Round r{round, count, in_place, comm, filled(kind, all, mine), filled(kind, all, before)};
        const bool odd = other && round == rounds - 2;
        const int code = odd ? MPI_Bcast(r.out.address(), count, MPI_INT, 0, comm) : row.call(r);
        if (code != MPI_SUCCESS)
            say(round, code);
        else if (!(in_place && call == "reduce" && rank != 0))
            check(row, r);
    }
    MPI_Finalize();
    return wrong == 0 ? 0 : 1;
}
