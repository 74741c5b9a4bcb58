// The counters: nothing is lost or mixed up when threads add at once, and another process reads them as they are.
#include "report/counters.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <memory>
#include <thread>
#include <vector>

#include "report/report.hpp"

namespace {

using namespace swy;
using report::Cell;

report::Line line(CallId call, Carrier carrier, Reason reason) {
    for (const Cell& found : report::snapshot()) {
        const report::Line line = report::line_of(found);
        if (line.call == name(call) && line.carrier == carrier && line.reason == reason)
            return line;
    }
    return {};
}

TEST(Counters, Sum_what_all_threads_add) {
    constexpr int kThreads = 8;
    constexpr int kAdds = 20000;
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
        threads.emplace_back([] {
            for (int i = 0; i < kAdds; ++i)
                report::add(i % 2 == 0 ? CallId::kAllreduce : CallId::kBcast, Carrier::kNccl, Reason::kNone, 3, 1e-6);
        });
    }
    for (std::thread& thread : threads)
        thread.join();
    for (CallId call : {CallId::kAllreduce, CallId::kBcast}) {
        const report::Line sum = line(call, Carrier::kNccl, Reason::kNone);
        EXPECT_EQ(sum.count, kThreads * kAdds / 2u);
        EXPECT_EQ(sum.bytes, 3u * kThreads * kAdds / 2);
        EXPECT_NEAR(sum.seconds, 1e-6 * kThreads * kAdds / 2, 1e-9);
    }
}

TEST(Counters, Keep_carriers_and_reasons_apart) {
    report::add(CallId::kReduce, Carrier::kStaged, Reason::kSmall, 10, 0);
    report::add(CallId::kReduce, Carrier::kStaged, Reason::kMixed, 20, 0);
    report::add(CallId::kReduce, Carrier::kHost, Reason::kSmall, 40, 0);
    EXPECT_EQ(line(CallId::kReduce, Carrier::kStaged, Reason::kSmall).bytes, 10u);
    EXPECT_EQ(line(CallId::kReduce, Carrier::kStaged, Reason::kMixed).bytes, 20u);
    EXPECT_EQ(line(CallId::kReduce, Carrier::kHost, Reason::kSmall).bytes, 40u);
    EXPECT_EQ(line(CallId::kReduce, Carrier::kNccl, Reason::kNone).count, 0u);
}

TEST(Counters, Tell_calls_by_the_size_of_their_data) {
    for (std::size_t bytes : {0u, 255u, 256u, 4096u, 65535u, 65536u, 1u << 20, (16u << 20) - 1, 16u << 20})
        report::add(CallId::kScan, Carrier::kNccl, Reason::kNone, bytes, 0);
    const report::Line scans = line(CallId::kScan, Carrier::kNccl, Reason::kNone);
    EXPECT_EQ(scans.counts, (std::array<std::uint64_t, report::kSizeClasses>{2, 1, 2, 1, 2, 1}));
    EXPECT_EQ(scans.count, 9u);
}

TEST(Counters, A_table_of_another_process_gives_the_same_lines) {
    const auto table = std::make_unique<report::CounterTable>();
    for (unsigned i = 0; i < 3; ++i) {
        table->counters[7 * i].cell = report::keys() - i;  // the last keys, the largest first
        table->counters[7 * i].counts[0] = i + 1;
    }
    table->counters[30].cell = report::keys() + 1;  // of no call
    table->counters[30].counts[0] = 1;
    const std::vector<Cell> cells = report::cells_of(*table);
    ASSERT_EQ(cells.size(), 3u);
    for (unsigned i = 0; i < 3; ++i) {
        EXPECT_EQ(cells[i].key, report::keys() - 3 + i);
        EXPECT_EQ(cells[i].sum.count, 3 - i);
    }
    const report::Line last = report::line_of(cells[2]);
    EXPECT_EQ(last.call, name(static_cast<CallId>(kCallIds - 1)));
    EXPECT_EQ(static_cast<int>(last.carrier), kCarriers - 1);
    EXPECT_EQ(static_cast<int>(last.reason), kReasons - 1);
}

// Last of all, since it fills the process's own table.
TEST(CountersThatAreMany, Find_room_or_are_not_counted) {
    std::size_t added = 0;
    for (int call = 0; call < 40; ++call)
        for (int reason = 0; reason < kReasons; ++reason, ++added)
            report::add(static_cast<CallId>(call), Carrier::kPeer, static_cast<Reason>(reason), 1, 0);
    ASSERT_GT(added, report::CounterTable::kCounters);
    const std::vector<Cell> cells = report::snapshot();
    EXPECT_EQ(cells.size(), report::CounterTable::kCounters);
    for (const Cell& cell : cells)
        EXPECT_GE(cell.sum.count, 1u);
}

TEST(Counters, Snapshots_are_in_ascending_order) {
    report::add(CallId::kBcast, Carrier::kHost, Reason::kNone, 1, 0);
    report::add(CallId::kAllgather, Carrier::kHost, Reason::kNone, 1, 0);
    const std::vector<Cell> cells = report::snapshot();
    EXPECT_TRUE(std::is_sorted(cells.begin(), cells.end(), [](const Cell& a, const Cell& b) { return a.key < b.key; }));
    EXPECT_GE(cells.size(), 2u);
}

TEST(Reasons, Have_words_that_differ) {
    std::vector<std::string_view> names;
    for (int i = 0; i < kReasons; ++i)
        names.push_back(name(static_cast<Reason>(i)));
    std::sort(names.begin(), names.end());
    EXPECT_EQ(std::adjacent_find(names.begin(), names.end()), names.end());
}

}  // namespace
