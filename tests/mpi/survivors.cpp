// A rank dies, and the others revoke the communicator, shrink it and go on (ULFM, which Open MPI 5 has under `mpirun
// --with-ft ulfm`). Every rank that needs the dead one gets MPIX_ERR_PROC_FAILED or MPIX_ERR_REVOKED within seconds,
// what returns MPI_SUCCESS is compared with arithmetic, and MPI_Finalize succeeds. Driven by survivors.test:
//   survivors CALL KIND COUNT [WHO AT]
// KIND is device or host, COUNT the number of ints. Rank WHO ends itself before round AT, half a second after it began
// it where a plus follows, or in MPI_Finalize's place where AT is "end"; without these two VGPU_FAULTS ends one.
#include <dlfcn.h>
#include <mpi.h>
#include <mpix_switchyard.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "../collective_forms.hpp"
#include "gpu.hpp"
#include "stream/queue.hpp"

namespace {

constexpr int kRounds = 12;
constexpr int kProcessFailed = 75, kRevoked = 77;  // of Open MPI 5
constexpr double kLimit = 5;                       // seconds from the death to the error
constexpr int kTag = 3;

int original = 0, wrong = 0;  // the rank in MPI_COMM_WORLD, and what was found

// The functions have no prototypes in Open MPI 4.1.
template <typename Function>
Function* ulfm(const char* name) {
    return reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, name));
}

void complain(int round, const std::string& what) {
    std::fprintf(stderr, "rank %d, round %d: WRONG: %s\n", original, round, what.c_str());
    ++wrong;
}

int class_of(int code) {
    int its = code;
    MPI_Error_class(code, &its);
    return its;
}

std::string text_of(int code) {
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    MPI_Error_string(code, text, &length);
    return text;
}

struct Ranks {
    MPI_Comm comm = MPI_COMM_NULL;
    int rank = 0, size = 0;
    std::vector<int> originals;

    void look() {
        MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
        MPI_Comm_rank(comm, &rank);
        MPI_Comm_size(comm, &size);
        MPI_Group all = MPI_GROUP_NULL, mine = MPI_GROUP_NULL;
        MPI_Comm_group(MPI_COMM_WORLD, &all);
        MPI_Comm_group(comm, &mine);
        std::vector<int> places(static_cast<std::size_t>(size));
        std::iota(places.begin(), places.end(), 0);
        originals.resize(places.size());
        MPI_Group_translate_ranks(mine, size, places.data(), all, originals.data());
        MPI_Group_free(&all);
        MPI_Group_free(&mine);
    }
};

int given(int round, int from) {
    return 100 * round + from + 1;
}
int sum(int round, const Ranks& ranks) {
    int all = 0;
    for (const int one : ranks.originals)
        all += given(round, one);
    return all;
}

struct Buffers {
    int count;
    gpu::Memory &in, &out;
};

// The codes of all that failed, besides MPI_SUCCESS: of a list of requests each one's.
using Call = std::function<std::vector<int>(const Ranks&, const Buffers&)>;

std::vector<int> ring(const Ranks& ranks, const Buffers& b) {
    const int next = (ranks.rank + 1) % ranks.size, before = (ranks.rank + ranks.size - 1) % ranks.size;
    MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    MPI_Status statuses[2];
    std::vector<int> codes = {MPI_Irecv(b.out.address(), b.count, MPI_INT, before, kTag, ranks.comm, &requests[0]),
                              MPI_Isend(b.in.address(), b.count, MPI_INT, next, kTag, ranks.comm, &requests[1])};
    const int code = MPI_Waitall(2, requests, statuses);
    if (class_of(code) != MPI_ERR_IN_STATUS) {
        codes.push_back(code);
        return codes;
    }
    for (const MPI_Status& status : statuses)
        if (class_of(status.MPI_ERROR) != MPI_ERR_PENDING)
            codes.push_back(status.MPI_ERROR);
    return codes;
}

std::vector<int> sendrecv(const Ranks& ranks, const Buffers& b) {
    const int next = (ranks.rank + 1) % ranks.size, before = (ranks.rank + ranks.size - 1) % ranks.size;
    return {MPI_Sendrecv(b.in.address(), b.count, MPI_INT, next, kTag, b.out.address(), b.count, MPI_INT, before, kTag,
                         ranks.comm, MPI_STATUS_IGNORE)};
}

std::vector<int> allreduce(const Ranks& ranks, const Buffers& b) {
    return {forms::Allreduce(b.in.address(), b.out.address(), b.count, MPI_INT, MPI_SUM, ranks.comm)};
}

std::vector<int> multi(const Ranks& ranks, const Buffers& b) {
    const void* const in[] = {b.in.address()};
    void* const out[] = {b.out.address()};
    return {MPIX_Allreduce_multi(in, out, 1, b.count, MPI_INT, MPI_SUM, ranks.comm)};
}

std::vector<int> bcast(const Ranks& ranks, const Buffers& b) {
    const bool root = ranks.rank == ranks.size - 1;
    return {MPI_Bcast(root ? b.in.address() : b.out.address(), b.count, MPI_INT, ranks.size - 1, ranks.comm)};
}

std::vector<int> split(const Ranks& ranks, const Buffers& b) {
    MPI_Comm same = MPI_COMM_NULL;
    if (const int code = MPI_Comm_split(ranks.comm, 0, ranks.rank, &same); code != MPI_SUCCESS)
        return {code};
    MPI_Comm_set_errhandler(same, MPI_ERRORS_RETURN);
    const int code = MPI_Allreduce(b.in.address(), b.out.address(), b.count, MPI_INT, MPI_SUM, same);
    if (code != MPI_SUCCESS)
        ulfm<int(MPI_Comm)>("MPIX_Comm_revoke")(same);
    MPI_Comm_free(&same);
    return {code};
}

// On a stream, for which the host waits outside MPI. What comes after the call's return the next call says.
std::vector<int> enqueue(const Ranks& ranks, const Buffers& b) {
    static std::map<int, stream_test::Queue*> queues;  // by size: a new one for each shrunk communicator
    stream_test::Queue*& queue = queues[ranks.size];
    if (queue == nullptr) {
        auto* const made = new stream_test::Queue(true, ranks.comm);  // MPI_Finalize ends its communicator
        if (made->comm == MPI_COMM_NULL)
            return {MPI_Barrier(ranks.comm)};
        queue = made;
        MPI_Comm_set_errhandler(queue->comm, MPI_ERRORS_RETURN);
    }
    const int code = MPIX_Allreduce_enqueue(b.in.address(), b.out.address(), b.count, MPI_INT, MPI_SUM, queue->comm);
    queue->synchronize();
    return {code, MPI_Barrier(ranks.comm)};
}

struct Row {
    Call call;
    std::function<int(int round, const Ranks&)> result;
    forms::Form form = forms::Form::kBlocking;
};

std::map<std::string, Row> rows() {
    const auto from_before = [](int round, const Ranks& r) {
        return given(round, r.originals[static_cast<std::size_t>((r.rank + r.size - 1) % r.size)]);
    };
    const auto from_last = [](int round, const Ranks& r) {
        return r.rank == r.size - 1 ? -1 : given(round, r.originals.back());
    };
    return {{"allreduce", {allreduce, sum}},
            {"iallreduce", {allreduce, sum, forms::Form::kNonBlocking}},
            {"persistent", {allreduce, sum, forms::Form::kPersistent}},
            {"multi", {multi, sum}},
            {"enqueue", {enqueue, sum}},
            {"bcast", {bcast, from_last}},
            {"split", {split, sum}},
            {"messages", {ring, from_before}},
            {"sendrecv", {sendrecv, from_before}}};
}

std::vector<std::byte> ints(int count, int value) {
    std::vector<std::byte> bytes(static_cast<std::size_t>(count) * sizeof value);
    for (int i = 0; i < count; ++i)
        std::memcpy(bytes.data() + static_cast<std::size_t>(i) * sizeof value, &value, sizeof value);
    return bytes;
}

// Calls that do not block have NCCL once its set-up, which begins with the communicator (SWITCHYARD_EAGER), is through:
// within some ms where nothing else runs.
void let_set_up(const Ranks& ranks) {
    constexpr int kTurns = 150, kMicroseconds = 10000;
    for (int turn = 0; turn < kTurns && forms::current != forms::Form::kBlocking; ++turn) {
        usleep(kMicroseconds);
        MPI_Barrier(ranks.comm);
    }
}

// Leaves the ranks that are left in `ranks`, and returns the first round that some of them have not done; -1 where that
// has failed too.
int recover(Ranks& ranks, int round) {
    ulfm<int(MPI_Comm)>("MPIX_Comm_revoke")(ranks.comm);
    MPI_Comm left = MPI_COMM_NULL;
    if (ulfm<int(MPI_Comm, MPI_Comm*)>("MPIX_Comm_shrink")(ranks.comm, &left) != MPI_SUCCESS) {
        complain(round, "MPIX_Comm_shrink has failed");
        return -1;
    }
    MPI_Comm_free(&ranks.comm);
    ranks.comm = left;
    ranks.look();
    int first = round;
    int all_well = 1;
    const int code = MPI_Allreduce(&round, &first, 1, MPI_INT, MPI_MIN, ranks.comm);
    const int agreed = ulfm<int(MPI_Comm, int*)>("MPIX_Comm_agree")(ranks.comm, &all_well);
    if (code == MPI_SUCCESS && agreed == MPI_SUCCESS && all_well == 1) {
        let_set_up(ranks);
        return first;
    }
    complain(round, "the shrunk communicator does not work");
    return -1;
}

// Does one round; returns whether it has succeeded here.
bool do_round(const Row& row, gpu::Kind kind, int count, int round, const Ranks& ranks) {
    auto& in = *new gpu::Memory(kind, ints(count, given(round, original)));  // a copy may never end
    auto& out = *new gpu::Memory(kind, ints(count, -1));
    const auto began = std::chrono::steady_clock::now();
    const std::vector<int> codes = row.call(ranks, {count, in, out});
    const double took = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    if (took > kLimit)
        complain(round, "the call took " + std::to_string(took) + " s");
    bool failed = false;
    for (const int code : codes) {
        if (code == MPI_SUCCESS)
            continue;
        failed = true;
        if (const int its = class_of(code); its != kProcessFailed && its != kRevoked)
            complain(round, "class " + std::to_string(its) + ": " + text_of(code));
        else
            std::fprintf(stderr, "rank %d, round %d: %s\n", original, round, text_of(code).c_str());
    }
    if (!failed && out.read() != ints(count, row.result(round, ranks)))
        complain(round, "MPI_SUCCESS over wrong data");
    return !failed;
}

}  // namespace

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &original);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    const Row row = rows().at(argv[1]);
    const gpu::Kind kind = std::string(argv[2]) == "device" ? gpu::Kind::kDevice : gpu::Kind::kHost;
    const int count = std::atoi(argv[3]);
    const bool dies = argc > 5 && std::atoi(argv[4]) == original;
    const bool at_end = argc > 5 && std::string(argv[5]) == "end";
    const int at = argc > 5 && !at_end ? std::atoi(argv[5]) : -1;
    const bool later = argc > 5 && std::string(argv[5]).back() == '+';
    if (kind == gpu::Kind::kDevice)
        gpu::Driver::get().use(original % gpu::Driver::get().devices);
    forms::current = row.form;
    Ranks ranks;
    MPI_Comm_dup(MPI_COMM_WORLD, &ranks.comm);
    ranks.look();
    let_set_up(ranks);
    int round = 0;
    for (int shrinks = 0; round >= 0 && round < kRounds;) {
        if (dies && round == at && later)
            std::thread([] {
                std::this_thread::sleep_for(std::chrono::milliseconds(500));
                kill(getpid(), SIGKILL);
            }).detach();
        else if (dies && round == at)
            raise(SIGKILL);
        bool well = do_round(row, kind, count, round, ranks);
        if (well && ++round == kRounds && !at_end)  // those that are through with their work may be needed again
            well = MPI_Barrier(ranks.comm) == MPI_SUCCESS;
        if (well)
            continue;
        if (++shrinks > 2) {
            complain(round, "fails after it was shrunk");
            break;
        }
        round = recover(ranks, std::min(round, kRounds - 1));
    }
    if (dies && at_end)
        raise(SIGKILL);
    const int ranks_left = ranks.size;
    MPI_Comm_free(&ranks.comm);
    const auto began = std::chrono::steady_clock::now();
    const int code = MPI_Finalize();
    const double took = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    if (code != MPI_SUCCESS || took > 2 * kLimit)
        complain(kRounds, "MPI_Finalize returned " + std::to_string(code) + " after " + std::to_string(took) + " s");
    std::fprintf(stderr, "rank %d of %d left ends with %d\n", original, ranks_left, wrong);
    return wrong == 0 ? 0 : 1;
}
