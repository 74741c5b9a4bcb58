// The order in which non-blocking collectives are launched, in every interleaving of three processes: each launches
// what its turn allows, on two NCCL communicators, with operations started in another order on every process. None
// waits for ever, all launch a communicator's operations in one order, and no process works for two communicators at
// once (comm/launch_order.hpp).
#include "comm/launch_order.hpp"

#include <gtest/gtest.h>

#include <mpi.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "interleavings.hpp"

namespace {

using namespace swy;
using comm::Launch;
using interleavings::kRanks;

using Mail = std::array<std::deque<Launch>, kRanks>;  // the tokens that have been sent to each process

class Tokens final : public comm::LaunchTokens {
  public:
    // `ranks`: which processes the communicator has, in the order of MPI_COMM_WORLD.
    Tokens(Mail& mail, std::vector<int> ranks, int rank) : mail_(mail), ranks_(std::move(ranks)), rank_(rank) {}
    int before() const override { return neighbour(-1); }
    bool receive(Launch& token) override {
        auto& mine = mail_[static_cast<std::size_t>(rank_)];
        if (mine.empty())
            return false;
        token = mine.front();
        mine.pop_front();
        return true;
    }
    void send(const Launch& token) override {
        if (neighbour(1) != MPI_PROC_NULL)
            mail_[static_cast<std::size_t>(neighbour(1))].push_back(token);
    }

  private:
    int neighbour(int step) const {
        const auto mine = std::find(ranks_.begin(), ranks_.end(), rank_) - ranks_.begin() + step;
        return mine >= 0 && mine < static_cast<std::ptrdiff_t>(ranks_.size()) ? ranks_[static_cast<std::size_t>(mine)]
                                                                              : MPI_PROC_NULL;
    }
    Mail& mail_;
    const std::vector<int> ranks_;
    const int rank_;
};

// A communicator: which processes it has, and what stands for its NCCL communicator.
struct Group {
    std::vector<int> ranks;
    Mail mail;
    std::array<std::unique_ptr<comm::LaunchOrder>, kRanks> order;
    std::array<std::vector<Launch>, kRanks> launched;

    explicit Group(std::vector<int> of) : ranks(std::move(of)) {
        for (const int rank : ranks)
            order[static_cast<std::size_t>(rank)] =
                std::make_unique<comm::LaunchOrder>(std::make_unique<Tokens>(mail, ranks, rank), 1);
    }
    const nccl::Communicator* nccl() const { return reinterpret_cast<const nccl::Communicator*>(this); }
    bool all_have_launched(const Launch& launch) const {
        return std::all_of(ranks.begin(), ranks.end(), [&](int rank) {
            const auto& mine = launched[static_cast<std::size_t>(rank)];
            return std::find(mine.begin(), mine.end(), launch) != mine.end();
        });
    }
};

// One operation on one process. Persistent ones (a start that is not 0) may be launched whenever they are started.
class Operation {
  public:
    Operation(Group& group, Launch launch, int rank, comm::Gpus& gpus)
        : group_(group), launch_(launch), rank_(static_cast<std::size_t>(rank)), claim_(gpus) {
        if (launch_.start == 0)
            order().enter(this);
    }
    void step() {
        if (done)
            return;
        if (!launched) {
            if ((launch_.start == 0 && !order().first(this)) || !order().arrived(launch_) ||
                !claim_.begin(group_.nccl()))
                return;
            launched = true;
            group_.launched[rank_].push_back(launch_);
            order().pass_token(launch_);
            order().leave(this);
        }
        if (group_.all_have_launched(launch_)) {
            claim_.end();
            done = true;
        }
    }
    const Group& group() const { return group_; }
    bool launched = false, done = false;

  private:
    comm::LaunchOrder& order() { return *group_.order[rank_]; }

    Group& group_;
    const Launch launch_;
    const std::size_t rank_;
    comm::GpuClaim claim_;
};

// What a process starts, in its own order: which of the groups, and which operation on it.
struct Start {
    int group;
    Launch launch;
};
using Program = std::vector<Start>;

class Process {
  public:
    Process(std::vector<Group*> groups, Program program, int rank)
        : groups_(std::move(groups)), program_(std::move(program)), rank_(rank) {}
    // Starts the next operation of the program, if there is one left, and steps all.
    void turn() {
        if (operations_.size() < program_.size()) {
            const Start& next = program_[operations_.size()];
            operations_.push_back(
                std::make_unique<Operation>(*groups_[static_cast<std::size_t>(next.group)], next.launch, rank_, gpus_));
        }
        for (const auto& operation : operations_)
            operation->step();
        const Group* works_for = nullptr;
        for (const auto& operation : operations_) {
            if (!operation->launched || operation->done)
                continue;
            EXPECT_TRUE(works_for == nullptr || works_for == &operation->group()) << "for two communicators at once";
            works_for = &operation->group();
        }
    }
    bool done() const {
        return operations_.size() == program_.size() &&
               std::all_of(operations_.begin(), operations_.end(), [](const auto& o) { return o->done; });
    }

  private:
    const std::vector<Group*> groups_;
    const Program program_;
    const int rank_;
    comm::Gpus gpus_;
    std::vector<std::unique_ptr<Operation>> operations_;
};

void run(const std::array<Program, kRanks>& programs, const std::vector<std::vector<int>>& members,
         const interleavings::Schedule& schedule) {
    std::deque<Group> groups;
    std::vector<Group*> all;
    for (const std::vector<int>& ranks : members)
        all.push_back(&groups.emplace_back(ranks));
    std::vector<std::unique_ptr<Process>> processes;
    for (int rank = 0; rank < kRanks; ++rank)
        processes.push_back(std::make_unique<Process>(all, programs[static_cast<std::size_t>(rank)], rank));
    for (const int rank : schedule)
        processes[static_cast<std::size_t>(rank)]->turn();
    for (int round = 0; round < 20; ++round)
        for (const auto& process : processes)
            process->turn();
    for (const auto& process : processes)
        ASSERT_TRUE(process->done()) << "a process waits for ever";
    for (const Group& group : groups)
        for (const int rank : group.ranks)
            ASSERT_EQ(group.launched[static_cast<std::size_t>(rank)],
                      group.launched[static_cast<std::size_t>(group.ranks.front())]);
}

TEST(Launch_order, never_deadlocks_where_communicators_are_used_in_different_orders) {
    const Start a1{0, {1}}, a2{0, {2}}, b1{1, {1}}, b2{1, {2}};
    const std::vector<Program> orders{{a1, b1, a2, b2}, {b1, a1, b2, a2}, {a1, a2, b1, b2}, {b1, b2, a1, a2}};
    interleavings::for_each_choice(4, [&](const std::vector<int>& choice) {
        std::array<Program, kRanks> programs;
        for (std::size_t rank = 0; rank < kRanks; ++rank)
            programs[rank] = orders[static_cast<std::size_t>(choice[rank])];
        interleavings::for_each(3, [&](const interleavings::Schedule& schedule) {
            run(programs, {{0, 1, 2}, {0, 1, 2}}, schedule);
        });
    });
}

// Three communicators of two processes each: a circle, if launches were not ordered.
TEST(Launch_order, never_deadlocks_in_a_circle_of_communicators) {
    const Start ab{0, {1}}, bc{1, {1}}, ca{2, {1}};
    const std::array<std::array<Program, 2>, kRanks> either{
        {{{{ab, ca}, {ca, ab}}}, {{{bc, ab}, {ab, bc}}}, {{{ca, bc}, {bc, ca}}}}};
    interleavings::for_each_choice(2, [&](const std::vector<int>& choice) {
        std::array<Program, kRanks> programs;
        for (std::size_t rank = 0; rank < kRanks; ++rank)
            programs[rank] = either[rank][static_cast<std::size_t>(choice[rank])];
        interleavings::for_each(4, [&](const interleavings::Schedule& schedule) {
            run(programs, {{0, 1}, {1, 2}, {0, 2}}, schedule);
        });
    });
}

TEST(Launch_order, launches_persistent_operations_as_its_first_process_finds_them) {
    const Start one{0, {1, 1}}, two{0, {2, 1}}, plain{0, {3}}, other{1, {1}};
    const std::vector<Program> orders{
        {one, two, plain, other}, {two, one, plain, other}, {plain, two, other, one}, {other, plain, one, two}};
    interleavings::for_each_choice(4, [&](const std::vector<int>& choice) {
        std::array<Program, kRanks> programs;
        for (std::size_t rank = 0; rank < kRanks; ++rank)
            programs[rank] = orders[static_cast<std::size_t>(choice[rank])];
        interleavings::for_each(3, [&](const interleavings::Schedule& schedule) {
            run(programs, {{0, 1, 2}, {0, 1, 2}}, schedule);
        });
    });
}

TEST(Launch_order, drops_the_token_of_an_operation_that_was_given_up) {
    Mail mail;
    comm::LaunchOrder second(std::make_unique<Tokens>(mail, std::vector<int>{0, 1}, 1), 1);
    const Launch before{1}, given_up{2}, after{3};
    second.give_up(given_up);
    mail[1] = {before, given_up, after};
    EXPECT_FALSE(second.arrived(after)) << "another one comes first";
    EXPECT_EQ(second.missing(after), 0);
    EXPECT_TRUE(second.arrived(before));
    second.pass_token(before);
    EXPECT_FALSE(second.arrived(given_up));
    EXPECT_TRUE(second.arrived(after));
    EXPECT_EQ(second.missing(after), MPI_PROC_NULL);
    second.give_up(after);  // its token is here already
    EXPECT_FALSE(second.arrived(after));
}

TEST(Gpu_claim, lets_no_later_operation_overtake_one_that_waits) {
    comm::Gpus gpus;
    Group a({0}), b({0});
    comm::GpuClaim first(gpus), of_b(gpus), later(gpus);
    EXPECT_TRUE(first.begin(a.nccl()));
    EXPECT_FALSE(of_b.begin(b.nccl()));
    EXPECT_FALSE(later.begin(a.nccl())) << "b would wait as long as a has more";
    first.end();
    EXPECT_TRUE(of_b.begin(b.nccl()));
    EXPECT_FALSE(later.begin(a.nccl()));
    of_b.end();
    EXPECT_TRUE(later.begin(a.nccl()));
}

TEST(Launch_order, gives_every_operation_an_id_of_its_own) {
    Mail mail;
    const comm::LaunchOrder one(std::make_unique<Tokens>(mail, std::vector<int>{0}, 0), 1);
    const comm::LaunchOrder two(std::make_unique<Tokens>(mail, std::vector<int>{0}, 0), 2);
    std::vector<comm::OperationId> ids;
    for (std::uint64_t number = 0; number < 100; ++number)
        for (std::uint64_t start = 0; start < 10; ++start)
            for (const comm::LaunchOrder* order : {&one, &two})
                ids.push_back(order->id_of({number, start}));
    std::sort(ids.begin(), ids.end());
    EXPECT_EQ(std::adjacent_find(ids.begin(), ids.end()), ids.end());
    EXPECT_NE(ids.front(), 0U);
}

}  // namespace
