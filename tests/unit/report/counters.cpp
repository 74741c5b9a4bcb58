// The counters: nothing is lost or mixed up when threads add at once, and a cell's place can be taken apart again.
#include "report/counters.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>
#include <vector>

#include "report/report.hpp"

namespace {

using namespace swy;
using report::Cell;

Cell cell(CallId call, Carrier carrier, Reason reason) {
    const report::Key key =
        report::key_of(static_cast<unsigned>(call), static_cast<unsigned>(carrier), static_cast<unsigned>(reason));
    for (const Cell& found : report::snapshot()) {
        if (found.key == key)
            return found;
    }
    return {key, {}};
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
        const report::Sum sum = cell(call, Carrier::kNccl, Reason::kNone).sum;
        EXPECT_EQ(sum.count, kThreads * kAdds / 2u);
        EXPECT_EQ(sum.bytes, 3u * kThreads * kAdds / 2);
        EXPECT_EQ(sum.nanoseconds, 1000u * kThreads * kAdds / 2);
    }
}

TEST(Counters, Keep_carriers_and_reasons_apart) {
    report::add(CallId::kReduce, Carrier::kStaged, Reason::kSmall, 10, 0);
    report::add(CallId::kReduce, Carrier::kStaged, Reason::kMixed, 20, 0);
    report::add(CallId::kReduce, Carrier::kHost, Reason::kSmall, 40, 0);
    EXPECT_EQ(cell(CallId::kReduce, Carrier::kStaged, Reason::kSmall).sum.bytes, 10u);
    EXPECT_EQ(cell(CallId::kReduce, Carrier::kStaged, Reason::kMixed).sum.bytes, 20u);
    EXPECT_EQ(cell(CallId::kReduce, Carrier::kHost, Reason::kSmall).sum.bytes, 40u);
    EXPECT_EQ(cell(CallId::kReduce, Carrier::kNccl, Reason::kNone).sum.count, 0u);
}

TEST(Counters, A_key_gives_back_its_parts) {
    for (unsigned call : {0u, 1u, static_cast<unsigned>(kCallIds) - 1}) {
        for (unsigned carrier = 0; carrier < kCarriers; ++carrier) {
            for (unsigned reason = 0; reason < kReasons; ++reason) {
                const report::Key key = report::key_of(call, carrier, reason);
                EXPECT_LT(key, report::keys());
                EXPECT_EQ(report::call_of(key), call);
                EXPECT_EQ(report::carrier_of(key), carrier);
                EXPECT_EQ(report::reason_of(key), reason);
            }
        }
    }
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
