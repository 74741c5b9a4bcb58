// Calls that do not match: they hang as on hardware, and with VGPU_STRICT=1 they fail with an error that names them.
#include "ranks.hpp"

namespace vgpu::test {
namespace {

Options strict() {
    Options options;
    options.environment = {{"VGPU_STRICT", "1"}};
    return options;
}

// The calls of two ranks, each a function of its communicator.
using Act = std::function<void(Rank&, ncclComm_t, void* buffer)>;

// Each rank acts; then every rank has the error, its stream is idle, and abort returns.
std::vector<Ended> expect_error(int ranks, const Act& act, Options options, ncclResult_t error = ncclInvalidUsage) {
    return run_ranks(
        ranks,
        [&](Rank& self) {
            ncclComm_t comm = self.communicator();
            const Memory buffer(1 << 16);
            act(self, comm, buffer.get());
            EXPECT_EQ(error_of(comm), error);
            EXPECT_TRUE(drained(self.stream, 5000));
            EXPECT_EQ(ncclAllReduce(buffer.get(), buffer.get(), 1, ncclInt, ncclSum, comm, self.stream), error);
            self.barrier();
            OK(ncclCommAbort(comm));
        },
        options);
}

// Each rank acts; the streams do not drain until the communicator is aborted.
void expect_hang(int ranks, const Act& act, Options options = {}) {
    run_ranks(
        ranks,
        [&](Rank& self) {
            ncclComm_t comm = self.communicator();
            self.connect(comm);
            const Memory buffer(1 << 16);
            act(self, comm, buffer.get());
            EXPECT_FALSE(drained(self.stream, 300));
            ncclResult_t state = ncclInternalError;
            OK(ncclCommGetAsyncError(comm, &state));
            EXPECT_EQ(state, ncclSuccess) << "nobody tells";
            self.barrier();
            OK(ncclCommAbort(comm));
            EXPECT_TRUE(drained(self.stream, 5000));
        },
        options);
}

void exchange_without_group(Rank& self, ncclComm_t comm, void* buffer) {
    const int next = (self.rank + 1) % self.ranks;
    const int before = (self.rank + self.ranks - 1) % self.ranks;
    OK(ncclSend(buffer, 100, ncclFloat, next, comm, self.stream));
    OK(ncclRecv(buffer, 100, ncclFloat, before, comm, self.stream));
}

void other_order(Rank& self, ncclComm_t comm, void* buffer) {
    const bool first = self.rank == 0;
    for (const bool reduce : {first, !first}) {
        OK(reduce ? ncclAllReduce(buffer, buffer, 64, ncclInt, ncclSum, comm, self.stream)
                  : ncclBroadcast(buffer, buffer, 64, ncclInt, 0, comm, self.stream));
    }
}

void other_count(Rank& self, ncclComm_t comm, void* buffer) {
    const std::size_t count = self.rank == 0 ? 64 : 65;
    OK(ncclAllReduce(buffer, buffer, count, ncclInt, ncclSum, comm, self.stream));
}

TEST(Hangs, Ungrouped_mutual_sends_hang_until_they_are_aborted) {
    expect_hang(2, exchange_without_group);
}
TEST(Hangs, A_ring_of_ungrouped_sends_hangs_until_it_is_aborted) {
    expect_hang(3, exchange_without_group);
}
TEST(Hangs, Collectives_in_different_orders_hang_until_they_are_aborted) {
    expect_hang(2, other_order);
}
TEST(Hangs, Different_counts_hang_until_they_are_aborted) {
    expect_hang(2, other_count);
}
TEST(Hangs, The_same_between_hosts) {
    expect_hang(3, exchange_without_group, two_hosts(1));
}

TEST(Strict, Ungrouped_mutual_sends_are_named) {
    expect_said(expect_error(2, exchange_without_group, strict()),
                {"these calls wait for each other", "rank 0 in ncclSend(count 100, float32, peer 1)",
                 "rank 1 in ncclSend(count 100, float32, peer 0)"});
}
TEST(Strict, A_ring_of_ungrouped_sends_is_named) {
    expect_said(expect_error(5, exchange_without_group, strict()),
                {"these calls wait for each other", "rank 4 in ncclSend"});
}
TEST(Strict, A_ring_of_ungrouped_sends_between_hosts_is_named) {
    Options options = two_hosts(1);
    options.environment = strict().environment;
    expect_said(expect_error(3, exchange_without_group, options), {"these calls wait for each other"});
}
TEST(Strict, Collectives_in_different_orders_are_named) {
    expect_said(expect_error(2, other_order, strict()), {"ncclAllReduce(count 64", "ncclBroadcast(count 64"});
}
TEST(Strict, Different_counts_are_named_to_all_ranks) {
    expect_said(expect_error(3, other_count, strict()),
                {"ncclAllReduce(count 64, int32, sum)", "ncclAllReduce(count 65, int32, sum)"});
}
TEST(Strict, Different_operators_types_and_roots_are_named) {
    for (const int what : {0, 1, 2}) {
        if (std::getenv("VGPU_TEST_RANK") != nullptr && std::atoi(std::getenv("WHAT")) != what)
            continue;
        Options options = strict();
        options.environment["WHAT"] = std::to_string(what);
        const auto ends = expect_error(
            2,
            [&](Rank& self, ncclComm_t comm, void* b) {
                const bool first = self.rank == 0;
                if (what == 0) {
                    OK(ncclAllReduce(b, b, 8, ncclInt, first ? ncclSum : ncclMax, comm, self.stream));
                }
                if (what == 1)
                    OK(ncclAllReduce(b, b, 8, first ? ncclInt : ncclFloat, ncclSum, comm, self.stream));
                if (what == 2) {
                    OK(ncclBroadcast(b, b, 8, ncclInt, self.rank, comm, self.stream));
                }
            },
            options);
        expect_said(ends, what == 0   ? std::vector<std::string>{"int32, sum", "int32, max"}
                          : what == 1 ? std::vector<std::string>{"int32, sum", "float32, sum"}
                                      : std::vector<std::string>{"int32, root 0", "int32, root 1"});
    }
}
TEST(Strict, A_receive_of_another_count_is_named) {
    expect_said(expect_error(
                    2,
                    [](Rank& self, ncclComm_t comm, void* b) {
                        OK(self.rank == 0 ? ncclSend(b, 10, ncclInt, 1, comm, self.stream)
                                          : ncclRecv(b, 11, ncclInt, 0, comm, self.stream));
                    },
                    strict()),
                {"ncclSend(count 10", "ncclRecv(count 11"});
}
TEST(Strict, A_collective_against_a_send_is_named) {
    expect_said(expect_error(
                    2,
                    [](Rank& self, ncclComm_t comm, void* b) {
                        OK(self.rank == 0 ? ncclSend(b, 10, ncclInt, 1, comm, self.stream)
                                          : ncclAllReduce(b, b, 10, ncclInt, ncclSum, comm, self.stream));
                    },
                    strict()),
                {"ncclSend(count 10", "ncclAllReduce(count 10"});
}
TEST(Strict, A_rank_that_is_late_is_no_mistake) {
    run_ranks(
        3,
        [](Rank& self) {
            ncclComm_t comm = self.communicator();
            const Memory buffer(64);
            if (self.rank == 2)
                sleep_ms(1000);
            for (int i = 0; i < 20; ++i) {
                OK(ncclAllReduce(buffer.get(), buffer.get(), 4, ncclInt, ncclSum, comm, self.stream));
                if (self.rank == i % 3)
                    sleep_ms(i % 5 == 0 ? 150 : 0);
            }
            CU_OK(cuStreamSynchronize(self.stream));
            OK(ncclCommDestroy(comm));
        },
        strict());
}

}  // namespace
}  // namespace vgpu::test
