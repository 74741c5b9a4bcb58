// Non-blocking and persistent collectives at random: on memory of every kind, drawn for each buffer and rank, and on
// host memory, where MPI itself is the reference. While one is under way others begin, on the same and on other
// communicators, and messages are sent; they end in any order, each by any of MPI's completion calls, on every rank in
// its own way. With --between, on intercommunicators alone.
// clang-format off
// launch: -n 1 --gpus 1 -- 150
// launch: -n 2 --gpus 2 -- 200
// launch: -n 3 --gpus 3 -x VGPU_JITTER=7 -- 150
// launch: -n 4 --gpus 2 -x SWITCHYARD_SYNC=device -- 150
// launch: -n 5 --gpus 5 -x SWITCHYARD_NCCL=0 -- 100
// launch: -n 2 --gpus 2 -x SWITCHYARD_PINNED_POOL=4096 -x SWITCHYARD_SYNC=none -- 150
// launch: -n 3 --gpus 3 -x SWITCHYARD_NCCL_THRESHOLD=1 -- 100
// launch: -n 4 --gpus 4 -x SWITCHYARD_NCCL_THRESHOLD=1 -x VGPU_JITTER=3 -- 100 --plain
// launch: -n 2 --gpus 2 -x SWITCHYARD_NCCL_THRESHOLD=1 -- 80 --plain --between
// launch: -n 3 --gpus 3 -x SWITCHYARD_NCCL_THRESHOLD=1 -x VGPU_JITTER=5 -- 60 --between
// launch: -n 5 --gpus 5 -x SWITCHYARD_NCCL_THRESHOLD=1 -- 50 --plain --between
// launch: -n 6 --gpus 6 -x SWITCHYARD_NCCL_THRESHOLD=1 -- 40 --plain
// test-timeout: 240
// clang-format on
#include <mpi.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "../../collective_forms.hpp"
#include "../../random_seed.hpp"
#include "round.hpp"

namespace {

using staged_test::Communicator;
using staged_test::Dice;
using staged_test::Round;

// A request that has been started and not yet completed; it is the program's that began it.
struct Open {
    MPI_Request* request;
    bool done = false;
    int code = MPI_SUCCESS;
};

struct Test {
    std::vector<Communicator> communicators;
    std::vector<Open*> open;
    Dice *common = nullptr, *own = nullptr;
    int failures = 0, most_open = 0;
};
Test test;

constexpr int kMostOpen = 5;

void run_one();

// The requests of `open` that are not done yet, as an array for MPI.
class Batch {
  public:
    Batch() {
        std::copy_if(test.open.begin(), test.open.end(), std::back_inserter(open_), [](Open* o) { return !o->done; });
        for (const Open* o : open_)
            requests.push_back(*o->request);
        statuses.resize(requests.size());
        indices.resize(requests.size());
    }
    int count() const { return static_cast<int>(requests.size()); }

    void end(int i, int code) {
        Open& open = *open_[static_cast<std::size_t>(i)];
        *open.request = requests[static_cast<std::size_t>(i)];
        open.done = true;
        open.code = code;
    }
    void end_all(int code) {
        for (int i = 0; i < count(); ++i)
            end(i, code == MPI_ERR_IN_STATUS ? statuses[static_cast<std::size_t>(i)].MPI_ERROR : code);
    }
    void end_some(int ended, int code) {
        for (int i = 0; i < ended; ++i)
            end(indices[static_cast<std::size_t>(i)],
                code == MPI_ERR_IN_STATUS ? statuses[static_cast<std::size_t>(i)].MPI_ERROR : code);
    }

    std::vector<MPI_Request> requests;
    std::vector<MPI_Status> statuses;
    std::vector<int> indices;

  private:
    std::vector<Open*> open_;
};

// One completion call over all that is open.
void complete_some(int how) {
    Batch batch;
    MPI_Request* requests = batch.requests.data();
    int index = MPI_UNDEFINED, flag = 0, ended = 0, code = MPI_SUCCESS;
    switch (how) {
        case 0:
            batch.end_all(MPI_Waitall(batch.count(), requests, batch.statuses.data()));
            break;
        case 1:
            code = MPI_Testall(batch.count(), requests, &flag, batch.statuses.data());
            if (flag)
                batch.end_all(code);
            break;
        case 2:
            code = MPI_Waitany(batch.count(), requests, &index, MPI_STATUS_IGNORE);
            batch.end(index, code);
            break;
        case 3:
            code = MPI_Testany(batch.count(), requests, &index, &flag, MPI_STATUS_IGNORE);
            if (flag && index != MPI_UNDEFINED)
                batch.end(index, code);
            break;
        case 4:
            code = MPI_Waitsome(batch.count(), requests, &ended, batch.indices.data(), batch.statuses.data());
            batch.end_some(ended, code);
            break;
        default:
            code = MPI_Testsome(batch.count(), requests, &ended, batch.indices.data(), batch.statuses.data());
            batch.end_some(ended, code);
    }
}

// Calls that complete one.
void complete_one(Open& open, int how) {
    int flag = 0;
    while (how == 1 && !flag)
        open.code = MPI_Test(open.request, &flag, MPI_STATUS_IGNORE);
    while (how == 2 && !flag)
        MPI_Request_get_status(*open.request, &flag, MPI_STATUS_IGNORE);
    if (how != 1)
        open.code = MPI_Wait(open.request, MPI_STATUS_IGNORE);
    open.done = true;
}

// What becomes of a request of the calls under test. The reference is not left open.
int leave_open(MPI_Request& request) {
    if (staged_test::current_side == staged_test::kReference)
        return forms::wait(request);
    Open mine{&request};
    test.open.push_back(&mine);
    test.most_open = std::max(test.most_open, static_cast<int>(test.open.size()));
    const forms::Form form = forms::current;
    const int starts = forms::starts;
    while (test.open.size() < kMostOpen && !test.common->one_in(3))
        run_one();
    while (!mine.done) {
        const int how = test.own->below(9);
        if (how < 6)
            complete_some(how);
        else
            complete_one(mine, how - 6);
    }
    test.open.erase(std::find(test.open.begin(), test.open.end(), &mine));
    staged_test::current_side = staged_test::kTested;
    forms::current = form;
    forms::starts = starts;
    return mine.code;
}

void run_one() {
    const int communicators = static_cast<int>(test.communicators.size());
    const Communicator& chosen = test.communicators[static_cast<std::size_t>(test.common->below(communicators))];
    // How often a round draws depends on the size of its group: it has dice of its own.
    Dice dice(static_cast<unsigned>(test.common->below(1 << 30)));
    Round round = round_on(chosen, dice, *test.own);
    forms::current = test.common->one_in(5)   ? forms::Form::kBlocking
                     : test.common->one_in(3) ? forms::Form::kPersistent
                                              : forms::Form::kNonBlocking;
    forms::starts = 1 + test.common->below(2);
    switch (dice.below(round.inter ? 3 : 8)) {
        case 0:
            one_rooted(round);
            break;
        case 1:
            one_all(round);
            break;
        case 2:
        case 3:
        case 4:
            one_reduction(round);
            break;
        case 5:
            one_message(round);
            break;
        default:
            one_neighbourhood(round);
    }
    test.failures += round.failures;
}

bool is_inter(const Communicator& communicator) {
    int inter = 0;
    MPI_Comm_test_inter(communicator.comm, &inter);
    return inter != 0;
}

// All that a seed says; true when all ranks found everything right.
bool run_seed(unsigned seed, int rank) {
    Dice common(seed), own(seed * 7919u + static_cast<unsigned>(rank) + 1);
    test.common = &common;
    test.own = &own;
    test.failures = 0;
    run_one();
    int anywhere = 0;
    MPI_Allreduce(&test.failures, &anywhere, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (anywhere > 0 && rank == 0)
        std::fprintf(stderr, "seed %u failed\n", seed);
    return anywhere == 0;
}

}  // namespace

int main(int argc, char** argv) {
    // See differential.cpp: of a message that is too long.
    setenv("OMPI_MCA_btl_vader_single_copy_mechanism", "none", 1);
    setenv("OMPI_MCA_smsc", "^cma", 1);
    MPI_Init(&argc, &argv);
    int rank = 0, size = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    gpu::Driver::get().use(rank % staged_test::devices());
    const bool between = argc > 1 && std::string_view(argv[argc - 1]) == "--between";
    argc -= between ? 1 : 0;
    staged_test::plain_only = argc > 1 && std::string_view(argv[argc - 1]) == "--plain";
    argc -= staged_test::plain_only ? 1 : 0;
    const int rounds = argc > 1 ? std::atoi(argv[1]) : 100;
    unsigned seed = argc > 2 ? static_cast<unsigned>(std::atoi(argv[2])) : random_seed();
    MPI_Bcast(&seed, 1, MPI_UNSIGNED, 0, MPI_COMM_WORLD);
    if (rank == 0)
        std::printf("%d rounds from seed %u; one alone: %s 1 SEED\n", rounds, seed, argv[0]);
    std::vector<Communicator> all = staged_test::communicators(rank, size);
    std::copy_if(all.begin(), all.end(), std::back_inserter(test.communicators),
                 [between](const Communicator& one) { return !between || is_inter(one); });
    forms::complete = leave_open;
    int failed = 0;
    for (int i = 0; i < rounds && failed < 5; ++i)
        failed += run_seed(seed + static_cast<unsigned>(i), rank) ? 0 : 1;
    if (rounds >= 100 && test.most_open < 3) {
        std::fprintf(stderr, "never more than %d requests under way at a time\n", test.most_open);
        ++failed;
    }
    staged_test::release(all);
    MPI_Finalize();
    return failed > 0 ? 1 : 0;
}
