#include "report/counters.hpp"

#include <array>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <new>

#include "report/report.hpp"
#include "report/trace.hpp"

namespace swy::report {

bool enabled = false;
bool covers_host_calls = false;

namespace {

constexpr std::size_t kCells = static_cast<std::size_t>(kCarriers) * kReasons;

struct Counter {
    std::atomic<std::uint64_t> count{0}, bytes{0}, nanoseconds{0};
};

// A call's cells are allocated when it first occurs: most programs use a dozen of several hundred calls. They live as
// long as the process, since a thread may still be adding when another is in MPI_Finalize.
using Page = std::array<Counter, kCells>;
constinit std::array<std::atomic<Page*>, kCallIds> pages{};

Page* page_of(std::size_t call) {
    Page* page = pages[call].load(std::memory_order_acquire);
    if (page != nullptr)
        return page;
    Page* fresh = new (std::nothrow) Page;
    if (fresh == nullptr)
        return nullptr;
    if (pages[call].compare_exchange_strong(page, fresh, std::memory_order_acq_rel))
        return fresh;
    delete fresh;  // another thread was first
    return page;
}

}  // namespace

void add(CallId call, Carrier carrier, Reason reason, std::size_t bytes, double seconds) {
    Page* page = page_of(static_cast<std::size_t>(call));
    if (page == nullptr)
        return;  // out of memory: the program's call matters more than its line in the report
    Counter& counter = (*page)[static_cast<std::size_t>(carrier) * kReasons + static_cast<std::size_t>(reason)];
    counter.count.fetch_add(1, std::memory_order_relaxed);
    counter.bytes.fetch_add(bytes, std::memory_order_relaxed);
    counter.nanoseconds.fetch_add(static_cast<std::uint64_t>(std::llround(seconds * 1e9)), std::memory_order_relaxed);
}

namespace {

double seconds_since(Time begin) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace

void tell_call(CallId call, Carrier carrier, Reason reason, std::size_t bytes, Time begin) {
    add(call, carrier, reason, bytes, seconds_since(begin));
    if (trace::on)
        trace::end_call(name(call), carrier, reason, bytes, begin);
}

void tell_operation(CallId call, Carrier carrier, Reason reason, std::size_t bytes, Time begin,
                    std::uint64_t operation) {
    add(call, carrier, reason, bytes, seconds_since(begin));
    if (trace::on)
        trace::end_operation(name(call), carrier, reason, bytes, begin, operation);
}

Key key_of(unsigned call, unsigned carrier, unsigned reason) {
    return (call * kCarriers + carrier) * kReasons + reason;
}

unsigned call_of(Key key) {
    return key / kReasons / kCarriers;
}

unsigned carrier_of(Key key) {
    return key / kReasons % kCarriers;
}

unsigned reason_of(Key key) {
    return key % kReasons;
}

Key keys() {
    return static_cast<Key>(kCallIds * kCells);
}

std::vector<Cell> snapshot() {
    std::vector<Cell> cells;
    for (std::size_t call = 0; call < pages.size(); ++call) {
        const Page* page = pages[call].load(std::memory_order_acquire);
        for (std::size_t i = 0; page != nullptr && i < kCells; ++i) {
            const Counter& counter = (*page)[i];
            const Sum sum = {counter.count.load(std::memory_order_relaxed),
                             counter.bytes.load(std::memory_order_relaxed),
                             counter.nanoseconds.load(std::memory_order_relaxed)};
            if (sum.count != 0)
                cells.push_back({static_cast<Key>(call * kCells + i), sum});
        }
    }
    return cells;
}

}  // namespace swy::report
