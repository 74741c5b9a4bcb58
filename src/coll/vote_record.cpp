#include "coll/vote_record.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "call/hash.hpp"
#include "coll/operands.hpp"
#include "coll/tuning.hpp"
#include "datatype/element.hpp"
#include "report/units.hpp"

namespace swy::coll {
namespace {

using call::mix;

enum Field : std::size_t {
    kDevice,
    kHost,
    kObstacle,
    kSetup,
    kLarge,
    kInFlight,
    kNonblocking,
    kOddSetups,  // both this and the next: the ranks have not ended the same number of set-ups
    kEvenSetups,
    kSetups,  // of a smallest value: kMostSetups less that
    kPrint,
    kPrintComplement,
    kLatest,    // when the last rank voted
    kEarliest,  // when the first one did, negated
    kFields
};
static_assert(kFields == std::tuple_size_v<VoteRecord>);

// The ranks differ by at most one in the number of set-ups that they have ended.
constexpr std::int64_t kMostSetups = 0xffffffff;

std::int64_t hash(const Fingerprint& print) {
    std::uint64_t h = mix(0, print.sequence);
    h = mix(h, print.bytes);
    h = mix(h, static_cast<std::uint32_t>(print.root));
    h = mix(h, (std::uint64_t{print.call} << 16) | (std::uint64_t{print.op} << 8) | print.element);
    return static_cast<std::int64_t>(h);
}

// On a page the fields before the fingerprint's share one 64-bit integer. Then comes the fingerprint, and the time.
constexpr std::size_t kTime = 4;
constexpr std::size_t kFlags = kPrint;
constexpr unsigned kBits = 3;  // of a flag
constexpr unsigned kReasonBits = 8;
constexpr unsigned shift_of(std::size_t field) {
    const unsigned as_flag = kBits * static_cast<unsigned>(field);
    return field <= kObstacle ? as_flag : as_flag - kBits + kReasonBits;
}
constexpr std::int64_t mask_of(std::size_t field) {
    return field == kSetups ? kMostSetups : (1 << (field == kObstacle ? kReasonBits : kBits)) - 1;
}
static_assert(shift_of(kSetups) == 32 && kReasons < 1 << kReasonBits);
static_assert(sizeof(comm::SharedPage::Record) == 2 * sizeof(std::int64_t) + sizeof(Fingerprint));

std::int64_t flag_in(const comm::SharedPage::Record& words, std::size_t field) {
    return words[0] >> shift_of(field) & mask_of(field);
}

}  // namespace

void describe(const Call& call, Vote& vote) {
    vote.bytes = message_bytes(call);
    vote.large = size_is_unknown(call) ? payload_bytes(call) >= threshold_of(call) : !under_threshold(call);
    vote.op = static_cast<std::uint8_t>(datatype::Operator::kNull);
    if (between_groups(
            call))  // each group names the root in its own way, and who passes nothing need not name the rest
        return;
    vote.root = call.root;
    vote.op = static_cast<std::uint8_t>(datatype::operator_of(call.op));
    if (call.op != MPI_OP_NULL)
        vote.element = static_cast<std::uint8_t>(datatype::element_of(call.operands.back().type).element);
}

Fingerprint print_of(const Call& call, const Vote& vote, std::uint64_t sequence) {
    return {sequence, vote.bytes, vote.root, static_cast<std::uint16_t>(plain(call.id)), vote.op, vote.element};
}

std::string in_words(const Fingerprint& print) {
    std::string text = fmt::format("{} number {}", name(static_cast<CallId>(print.call)), print.sequence + 1);
    if (print.bytes != 0)  // each rank knows it
        text += fmt::format(" of {} bytes", print.bytes);
    if (print.root != MPI_PROC_NULL)
        text += fmt::format(", root {}", print.root);
    if (print.op != static_cast<std::uint8_t>(datatype::Operator::kNull))
        text += fmt::format(", {} of {}", datatype::name(static_cast<datatype::Operator>(print.op)),
                            datatype::name(static_cast<datatype::Element>(print.element)));
    return text;
}

void fill(VoteRecord& record, const Vote& vote, bool nonblocking) {
    record[kDevice] = vote.device;
    record[kHost] = vote.host;
    record[kObstacle] = static_cast<std::int64_t>(vote.obstacle);
    record[kSetup] = vote.needs_setup ? 1 : 0;
    record[kLarge] = vote.large;
    record[kInFlight] = vote.in_flight;
    record[kNonblocking] = nonblocking;
    record[kOddSetups] = vote.setups % 2 != 0;
    record[kEvenSetups] = vote.setups % 2 == 0;
    record[kSetups] = kMostSetups - static_cast<std::int64_t>(vote.setups);
}

void fill_time(VoteRecord& record, std::int64_t now) {
    record[kLatest] = now;
    record[kEarliest] = -now;
}

void fill_print(VoteRecord& record, const Fingerprint& print) {
    record[kPrint] = hash(print);
    record[kPrintComplement] = ~record[kPrint];
}

void fill_start(const Vote& vote, std::uint64_t nccl, VoteRecord& record) {
    fill(record, vote, true);
    record[kPrint] = static_cast<std::int64_t>(nccl);
    record[kPrintComplement] = ~record[kPrint];
}

Decision read(const VoteRecord& all) {
    Decision decision;
    decision.any_device = all[kDevice] != 0;
    decision.any_host = all[kHost] != 0;
    decision.obstacle = static_cast<Reason>(all[kObstacle]);
    // Ranks that have ended different numbers of set-ups would use different NCCL communicators.
    decision.needs_setup = all[kSetup] != 0 || (all[kOddSetups] != 0 && all[kEvenSetups] != 0);
    decision.large = all[kLarge] != 0;
    decision.in_flight = all[kInFlight] != 0;
    decision.nonblocking = all[kNonblocking] != 0;
    decision.setups = static_cast<std::uint64_t>(kMostSetups - all[kSetups]);
    decision.spread = all[kLatest] + all[kEarliest];
    // max(x) == ~max(~x) = min(x) exactly when every rank has the same x.
    if (all[kPrint] != ~all[kPrintComplement])
        decision.state = Decision::State::kMismatch;
    return decision;
}

comm::SharedPage::Record page_record(const VoteRecord& record, const Fingerprint& print) {
    comm::SharedPage::Record words{};
    for (std::size_t field = 0; field < kFlags; ++field)
        words[0] |= record[field] << shift_of(field);
    std::memcpy(&words[1], &print, sizeof print);
    words[kTime] = record[kLatest];
    return words;
}

void number(comm::SharedPage::Record& words, std::uint64_t sequence, std::int64_t now) {
    static_assert(offsetof(Fingerprint, sequence) == 0);
    std::memcpy(&words[1], &sequence, sizeof sequence);
    words[kTime] = now;
}

Fingerprint print_in(const comm::SharedPage::Record& words) {
    Fingerprint print;
    std::memcpy(static_cast<void*>(&print), &words[1], sizeof print);
    return print;
}

bool same_print(const comm::SharedPage::Record& a, const comm::SharedPage::Record& b) {
    return std::equal(a.begin() + 1, a.begin() + kTime, b.begin() + 1);
}

bool has_device(const comm::SharedPage::Record& words) {
    return flag_in(words, kDevice) != 0;
}

void add(VoteRecord& all, const comm::SharedPage::Record& words) {
    for (std::size_t field = 0; field < kFlags; ++field)
        all[field] = std::max(all[field], flag_in(words, field));
    all[kLatest] = std::max(all[kLatest], words[kTime]);
    all[kEarliest] = std::max(all[kEarliest], -words[kTime]);
}

std::string compare(const std::vector<Fingerprint>& by_rank) {
    std::vector<std::pair<int, Fingerprint>> prints;
    for (std::size_t rank = 0; rank < by_rank.size(); ++rank)
        prints.emplace_back(static_cast<int>(rank), by_rank[rank]);
    return compare(prints);
}

std::string compare(std::vector<std::pair<int, Fingerprint>> prints) {
    std::sort(prints.begin(), prints.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    std::map<std::string, std::vector<int>> callers;
    for (const auto& [rank, print] : prints)
        callers[in_words(print)].push_back(rank);
    std::string text = "the ranks' calls do not match";
    const char* separator = ": ";
    for (const auto& [what, ranks] : callers) {
        text += fmt::format("{}{}: {}", separator, report::ranks_in_words(ranks), what);
        separator = "; ";
    }
    return text;
}

}  // namespace swy::coll
