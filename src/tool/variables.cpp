#include "tool/variables.hpp"

#include <algorithm>
#include <vector>

#include "call_ids.hpp"
#include "report/counters.hpp"
#include "report/report.hpp"
#include "settings/settings.hpp"

namespace swy::tool {

bool counts_calls = false;

namespace {

constexpr std::string_view kLargeForm = "_c";

std::string_view unit_of(Quantity quantity) {
    switch (quantity) {
        case Quantity::kBytes:
            return "bytes";
        case Quantity::kNanoseconds:
            return "time";
        case Quantity::kCalls:
            break;
    }
    return "calls";
}

std::string described(Quantity quantity, const std::string& of) {
    switch (quantity) {
        case Quantity::kBytes:
            return "Bytes of this process in " + of;
        case Quantity::kNanoseconds:
            return "Seconds of this process in " + of;
        case Quantity::kCalls:
            break;
    }
    return "Number of " + of;
}

// Names of variables have no hyphens.
std::string identifier(std::string_view word) {
    std::string name(word);
    std::replace(name.begin(), name.end(), '-', '_');
    return name;
}

std::vector<Performance> all_performance() {
    std::vector<Performance> all;
    const auto add = [&all](const std::string& stem, Quantity quantity, const std::string& of,
                            std::optional<Carrier> carrier, std::optional<Reason> reason, std::string_view call) {
        all.push_back({"switchyard_" + stem + "_" + std::string(unit_of(quantity)), described(quantity, of), quantity,
                       carrier, reason, call});
    };
    for (const Carrier carrier : {Carrier::kNccl, Carrier::kStaged, Carrier::kPeer})
        for (const Quantity quantity : {Quantity::kCalls, Quantity::kBytes, Quantity::kNanoseconds})
            add(std::string(name(carrier)), quantity,
                "calls with device memory that took the transport " + std::string(name(carrier)), carrier, {}, {});
    for (int reason = 1; reason < kReasons; ++reason)  // 0 is none
        for (const Quantity quantity : {Quantity::kCalls, Quantity::kBytes})
            add("reason_" + identifier(name(static_cast<Reason>(reason))), quantity,
                "calls with device memory that did not go over NCCL: " +
                    std::string(explain(static_cast<Reason>(reason))),
                {}, static_cast<Reason>(reason), {});
    for (const CallFacts& facts : kCallFacts) {
        const bool may_take_nccl = facts.treatment == Treatment::kRouted || facts.treatment == Treatment::kMatched ||
                                   facts.treatment == Treatment::kEnqueued;
        if (!may_take_nccl || facts.name.ends_with(kLargeForm))
            continue;
        for (const Carrier carrier : {Carrier::kNccl, Carrier::kStaged})
            for (const Quantity quantity : {Quantity::kCalls, Quantity::kBytes})
                add(std::string(facts.name) + "_" + std::string(name(carrier)), quantity,
                    "calls of " + std::string(facts.name) + " with device memory that took the transport " +
                        std::string(name(carrier)),
                    carrier, {}, facts.name);
    }
    return all;
}

bool is_form_of(std::string_view call, std::string_view base) {
    return call == base || (call.starts_with(base) && call.substr(base.size()) == kLargeForm);
}

}  // namespace

std::uint64_t Performance::value() const {
    std::uint64_t sum = 0;
    for (const report::Cell& cell : report::snapshot()) {
        const report::Line line = report::line_of(cell);
        const bool counts = line.carrier != Carrier::kHost && (!carrier || *carrier == line.carrier) &&
                            (!reason || *reason == line.reason) && (call.empty() || is_form_of(line.call, call));
        if (counts)
            sum += quantity == Quantity::kCalls   ? cell.sum.count
                   : quantity == Quantity::kBytes ? cell.sum.bytes
                                                  : cell.sum.nanoseconds;
    }
    return sum;
}

std::span<const Performance> performance() {
    static const std::vector<Performance> all = all_performance();
    return all;
}

void count_calls() {
    counts_calls = true;
    report::enabled = true;  // which MPI_Init leaves so
}

std::string Control::value() const {
    for (const settings::Shown& shown : settings::show())
        if (shown.name == name)
            return shown.value;
    return {};
}

std::span<const Control> control() {
    static const std::vector<Control> all = [] {
        std::vector<Control> rows;
        for (const settings::Row& row : settings::table())
            rows.push_back({row.name, row.meaning});
        return rows;
    }();
    return all;
}

}  // namespace swy::tool
