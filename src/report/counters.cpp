#include "report/counters.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstddef>

#include "report/report.hpp"
#include "report/trace.hpp"

namespace swy::report {

bool enabled = false;
bool covers_host_calls = false;

namespace {

constexpr std::size_t kCells = static_cast<std::size_t>(kCarriers) * kReasons;  // of one call
constexpr auto kRelaxed = std::memory_order_relaxed;

constinit CounterTable own_table{};
constinit CounterTable* table = &own_table;

// Returns the cell's counter, or null where there is no room for one more.
Counter* counter_of(Key key) {
    const std::uint32_t cell = key + 1;
    constexpr std::uint32_t kSpread = 2654435761;  // Knuth's, of 32 bits
    for (std::size_t probes = 0, at = key * kSpread; probes < CounterTable::kCounters; ++probes, ++at) {
        Counter& counter = table->counters[at % CounterTable::kCounters];
        std::uint32_t found = counter.cell.load(kRelaxed);
        if (found == 0 && counter.cell.compare_exchange_strong(found, cell, kRelaxed))
            found = cell;
        if (found == cell)  // or another thread was first with it
            return &counter;
    }
    return nullptr;
}

}  // namespace

void add(CallId call, Carrier carrier, Reason reason, std::size_t bytes, double seconds) {
    const std::size_t key = static_cast<std::size_t>(call) * kCells + static_cast<std::size_t>(carrier) * kReasons +
                            static_cast<std::size_t>(reason);
    Counter* const counter = counter_of(static_cast<Key>(key));
    if (counter == nullptr)
        return;
    counter->counts[size_class(bytes)].fetch_add(1, kRelaxed);
    counter->bytes.fetch_add(bytes, kRelaxed);
    counter->nanoseconds.fetch_add(static_cast<std::uint64_t>(std::llround(seconds * 1e9)), kRelaxed);
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

void tell_operation(CallId call, Carrier carrier, Reason reason, std::size_t bytes, Time begin, std::uint64_t operation,
                    const trace::Subject& subject) {
    add(call, carrier, reason, bytes, seconds_since(begin));
    if (trace::on)
        trace::end_operation(name(call), carrier, reason, bytes, begin, operation, subject);
}

Key keys() {
    return static_cast<Key>(kCallIds * kCells);
}

Line line_of(const Cell& cell) {
    return {std::string(name(static_cast<CallId>(cell.key / kCells))),
            static_cast<Carrier>(cell.key / kReasons % kCarriers),
            static_cast<Reason>(cell.key % kReasons),
            cell.sum.count,
            cell.sum.bytes,
            static_cast<double>(cell.sum.nanoseconds) * 1e-9,
            {},
            {},
            cell.sum.counts};
}

void count_in(CounterTable& where) {
    table = &where;
}

std::vector<Cell> cells_of(const CounterTable& from) {
    std::vector<Cell> cells;
    for (const Counter& counter : from.counters) {
        const std::uint32_t cell = counter.cell.load(kRelaxed);
        Sum sum{0, counter.bytes.load(kRelaxed), counter.nanoseconds.load(kRelaxed)};
        for (std::size_t i = 0; i < kSizeClasses; ++i)
            sum.count += sum.counts[i] = counter.counts[i].load(kRelaxed);
        if (cell != 0 && cell <= keys() && sum.count != 0)
            cells.push_back({cell - 1, sum});
    }
    std::sort(cells.begin(), cells.end(), [](const Cell& a, const Cell& b) { return a.key < b.key; });
    return cells;
}

std::vector<Cell> snapshot() {
    return cells_of(*table);
}

}  // namespace swy::report
