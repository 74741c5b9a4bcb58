#include "coll/agreement.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <map>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "call/hash.hpp"
#include "coll/operands.hpp"
#include "coll/pending_agreement.hpp"
#include "coll/tuning.hpp"
#include "datatype/element.hpp"
#include "error/loss.hpp"
#include "progress/keep_until.hpp"
#include "progress/stall.hpp"
#include "progress/wait.hpp"
#include "real.hpp"
#include "report/trace.hpp"
#include "report/units.hpp"
#include "settings/settings.hpp"

namespace swy::coll {
namespace {

using call::mix;

// One reduction by MPI_MAX decides everything: a flag's maximum is "any", a value's and its complement's together say
// "all equal".
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
    kFields
};
static_assert(kFields == std::tuple_size_v<VoteRecord>);
static_assert(sizeof(Fingerprint) == 24, "sent as bytes: no padding");

// The ranks differ by at most one in the number of set-ups that they have ended.
constexpr std::int64_t kMostSetups = 0xffffffff;

std::int64_t hash(const Fingerprint& print) {
    std::uint64_t h = mix(0, print.sequence);
    h = mix(h, print.bytes);
    h = mix(h, static_cast<std::uint32_t>(print.root));
    h = mix(h, (std::uint64_t{print.call} << 16) | (std::uint64_t{print.op} << 8) | print.element);
    return static_cast<std::int64_t>(h);
}

Fingerprint print_of(const Call& call, const Vote& vote, std::uint64_t sequence) {
    return {sequence, vote.bytes, vote.root, static_cast<std::uint16_t>(plain(call.id)), vote.op, vote.element};
}

// The call gets its number here, where it has its place among the communicator's calls.
Fingerprint fingerprint(const Call& call, comm::State& comm, const Vote& vote) {
    return print_of(call, vote, comm.agreed_calls++);
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

void fill_print(VoteRecord& record, const Fingerprint& print) {
    record[kPrint] = hash(print);
    record[kPrintComplement] = ~record[kPrint];
}

int cast(comm::State& comm, const VoteRecord& mine, VoteRecord& all, MPI_Request& request) {
    return real::Iallreduce(mine.data(), all.data(), kFields, MPI_INT64_T, MPI_MAX, comm.handle, &request);
}

Decision without_route(Decision::State state, int mpi_code = MPI_SUCCESS) {
    Decision decision;
    decision.state = state;
    decision.mpi_code = mpi_code;
    return decision;
}

Decision too_late(const progress::Deadline& deadline, const std::vector<bool>& arrived) {
    Decision decision = without_route(Decision::State::kTimeout);
    decision.problem = not_all(deadline, kEntered, arrived);
    return decision;
}

// How long a rank waits before it tells the others that it is there: each tells all, so it does so only where it will
// give up, or where that are few messages.
double patience(const comm::State& comm) {
    constexpr int kFewRanks = 64;
    const double timeout = settings::values().timeout;
    const double stall = comm.size <= kFewRanks ? settings::values().stall : 0;
    return timeout > 0 && stall > 0 ? std::min(timeout, stall) : std::max(timeout, stall);
}

// What SWITCHYARD_STALL's line says of an agreement by MPI. The first of the ranks that are known to wait says it for
// all; where that is not known, each does.
std::string waits_by_mpi(const comm::State& comm, const Arrivals& arrivals) {
    const std::vector<bool> known = arrivals.known();
    const auto first = std::find(known.begin(), known.end(), true);
    return first == known.end() || first - known.begin() == comm.rank ? not_yet_all(kEntered, known) : "";
}

// The agreement's id among the ranks; 0 where they have none.
comm::OperationId id_of(const comm::State& comm, std::uint64_t sequence) {
    return comm.order != nullptr ? name_of(*comm.order, {sequence}) : 0;
}

// A rank that gives an agreement up makes no real call, and tells the others: one that comes later must not go on
// alone. So each of them has an error, and they are in step again. Returns nothing where no rank has.
std::optional<Decision> given_up(const comm::State& comm, std::uint64_t sequence) {
    if (settings::values().timeout <= 0)
        return std::nullopt;
    std::string why = given_up_elsewhere(id_of(comm, sequence));
    if (why.empty())
        return std::nullopt;
    Decision decision = without_route(Decision::State::kTimeout);
    decision.problem = std::move(why);
    decision.told = true;
    return decision;
}

Decision agree_by_mpi(comm::State& comm, std::uint64_t sequence, const progress::Deadline& deadline) {
    MPI_Request request = MPI_REQUEST_NULL;
    comm::State::Ballots& ballots = *comm.ballots;
    if (const int rc = cast(comm, ballots.mine, ballots.all, request); rc != MPI_SUCCESS)
        return without_route(Decision::State::kMpiError, rc);
    Arrivals arrivals(comm, id_of(comm, sequence), patience(comm));
    const auto describe = [&] { return waits_by_mpi(comm, arrivals); };
    const progress::Waiting waiting(describe);
    for (;;) {
        int done = 0;
        if (const int rc = real::Test(&request, &done, MPI_STATUS_IGNORE); rc != MPI_SUCCESS)
            return without_route(Decision::State::kMpiError, rc);
        if (done) {
            std::optional<Decision> decision = given_up(comm, sequence);
            return decision.has_value() ? std::move(*decision) : read(ballots.all);
        }
        if (deadline.passed()) {
            progress::keep_until(request, std::exchange(comm.ballots, std::make_shared<comm::State::Ballots>()));
            comm.given_up = true;
            return too_late(deadline, arrivals.known());
        }
        arrivals.look();
        progress::Waiting::look();
    }
}

// On a shared page: the vote record without the fingerprint's fields in one 64-bit integer, and then the fingerprint as
// it is.
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
static_assert(sizeof(comm::SharedPage::Record) == sizeof(std::int64_t) + sizeof(Fingerprint));

comm::SharedPage::Record words_of(const VoteRecord& record, const Fingerprint& print) {
    comm::SharedPage::Record words{};
    for (std::size_t field = 0; field < kFlags; ++field)
        words[0] |= record[field] << shift_of(field);
    std::memcpy(&words[1], &print, sizeof print);
    return words;
}

std::int64_t flag_in(const comm::SharedPage::Record& words, std::size_t field) {
    return words[0] >> shift_of(field) & mask_of(field);
}

bool same_print(const comm::SharedPage::Record& a, const comm::SharedPage::Record& b) {
    return std::equal(a.begin() + 1, a.end(), b.begin() + 1);
}

Fingerprint print_in(const comm::SharedPage::Record& words) {
    Fingerprint print;
    std::memcpy(static_cast<void*>(&print), &words[1], sizeof print);
    return print;
}

// Returns the fingerprint of a rank's last non-blocking call, as far as it is known.
Fingerprint begun_by(const comm::SharedPage& page, int rank) {
    const comm::SharedPage::Nonblocking nonblocking = page.nonblocking(rank);
    Fingerprint print;
    print.sequence = nonblocking.end - 1;
    print.call = nonblocking.what;
    print.op = static_cast<std::uint8_t>(datatype::Operator::kNull);
    return print;
}

Decision without_route(comm::SharedPage::Outcome outcome, const progress::Deadline& deadline,
                       const std::vector<bool>& arrived) {
    if (outcome == comm::SharedPage::Outcome::kTooLate)
        return too_late(deadline, arrived);
    Decision decision = without_route(Decision::State::kMismatch);
    decision.problem = "the ranks' calls do not match, as another rank has found";
    return decision;
}

// Returns which ranks take part in the exchange of this rank's last record, or have gone beyond it.
std::vector<bool> arrived(const comm::State& comm, std::uint64_t sequence) {
    std::vector<bool> ranks;
    for (int rank = 0; rank < comm.size; ++rank)
        ranks.push_back(comm.page->peek(rank) != nullptr || comm.page->nonblocking(rank).end > sequence);
    return ranks;
}

// The first rank that waits in this exchange: one that has host memory alone does not, as a rule.
int first_that_waits(const comm::State& comm) {
    int first = comm.rank;
    for (int rank = comm.size - 1; rank >= 0; --rank)
        if (const comm::SharedPage::Record* words = comm.page->peek(rank); words != nullptr && flag_in(*words, kDevice))
            first = rank;
    return first;
}

// Makes the result of a mismatch that this rank alone has found: ranks that do not wait are in the real call by now.
Decision mismatch(comm::State& comm, const Fingerprint& mine, std::vector<std::pair<int, Fingerprint>> prints) {
    comm.page->close();
    prints.emplace_back(comm.rank, mine);
    Decision decision = without_route(Decision::State::kMismatch);
    decision.problem = compare(std::move(prints));
    return decision;
}

Decision agree_by_page(comm::State& comm, const Fingerprint& print, const progress::Deadline& deadline) {
    comm::SharedPage& page = *comm.page;
    const VoteRecord& vote = comm.ballots->mine;
    const comm::SharedPage::Record mine = words_of(vote, print);
    if (const auto told = page.publish(mine, deadline); told != comm::SharedPage::Outcome::kDone)
        return without_route(told, deadline, {});
    const auto describe = [&] {
        return first_that_waits(comm) == comm.rank ? not_yet_all(kEntered, arrived(comm, print.sequence)) : "";
    };
    const progress::Waiting waiting(describe);
    VoteRecord all = vote;
    std::vector<std::pair<int, Fingerprint>> others;
    bool some_nonblocking = false;
    bool differ = false;
    for (int step = 1; step < comm.size; ++step) {
        const int rank = (comm.rank + step) % comm.size;
        const comm::SharedPage::Record* words = nullptr;
        switch (const auto outcome = page.wait(rank, print.sequence, deadline, words)) {
            case comm::SharedPage::Outcome::kDone:
                for (std::size_t field = 0; field < kFlags; ++field)
                    all[field] = std::max(all[field], flag_in(*words, field));
                differ |= !same_print(*words, mine);
                break;
            case comm::SharedPage::Outcome::kNonblocking:
                some_nonblocking = true;
                break;
            default:
                return without_route(outcome, deadline, arrived(comm, print.sequence));
        }
    }
    if (std::optional<Decision> decision = given_up(comm, print.sequence))
        return std::move(*decision);
    if (!some_nonblocking && !differ)
        return read(all);
    // Ranks that have started a non-blocking call wait for an exchange by MPI, which will find the mismatch. All ranks
    // can take part in it unless one has published that it has host memory, and has gone on.
    if (some_nonblocking && all[kHost] == 0) {
        page.close();
        return agree_by_mpi(comm, print.sequence, deadline);
    }
    for (int rank = 0; rank < comm.size; ++rank)
        if (rank != comm.rank)
            others.emplace_back(rank, page.peek(rank) != nullptr ? print_in(*page.peek(rank)) : begun_by(page, rank));
    return mismatch(comm, print, std::move(others));
}

}  // namespace

void describe(const Call& call, Vote& vote) {
    vote.bytes = message_bytes(call);
    vote.large = size_is_unknown(call) && payload_bytes(call) >= threshold_of(call);
    vote.op = static_cast<std::uint8_t>(datatype::Operator::kNull);
    if (between_groups(
            call))  // each group names the root in its own way, and who passes nothing need not name the rest
        return;
    vote.root = call.root;
    vote.op = static_cast<std::uint8_t>(datatype::operator_of(call.op));
    if (call.op != MPI_OP_NULL)
        vote.element = static_cast<std::uint8_t>(datatype::element_of(call.operands.back().type).element);
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
    // max(x) == ~max(~x) = min(x) exactly when every rank has the same x.
    if (all[kPrint] != ~all[kPrintComplement])
        decision.state = Decision::State::kMismatch;
    return decision;
}

int begin(const Call& call, comm::State& comm, const Vote& vote, Fingerprint& print, VoteRecord& mine, VoteRecord& all,
          MPI_Request& request) {
    print = fingerprint(call, comm, vote);
    fill(mine, vote, true);
    fill_print(mine, print);
    if (comm.page != nullptr)
        comm.page->publish_nonblocking(print.sequence, print.call);
    return cast(comm, mine, all, request);
}

void fill_start(const Vote& vote, std::uint64_t nccl, VoteRecord& mine) {
    fill(mine, vote, true);
    mine[kPrint] = static_cast<std::int64_t>(nccl);
    mine[kPrintComplement] = ~mine[kPrint];
}

Decision agree(const Call& call, comm::State& comm, const Vote& vote, Fingerprint& print) {
    const report::trace::Part part("agreement");
    print = fingerprint(call, comm, vote);
    fill(comm.ballots->mine, vote, false);
    fill_print(comm.ballots->mine, print);
    const progress::Deadline deadline(settings::values().timeout, comm.handle);
    const Decision decision =
        has_page(comm) ? agree_by_page(comm, print, deadline) : agree_by_mpi(comm, print.sequence, deadline);
    if (const comm::OperationId what = id_of(comm, print.sequence);
        what != 0 && decision.state == Decision::State::kTimeout && !decision.told && !error::loss_of(comm.handle))
        comm::tell_failure(comm::ranks_in_world(comm), comm.rank, what, decision.problem);
    return decision;
}

comm::SharedPage::Record host_words(const Call& call, const Vote& vote) {
    VoteRecord record{};
    fill(record, vote, false);
    return words_of(record, print_of(call, vote, 0));
}

Decision tell_host(comm::State& comm, comm::SharedPage::Record mine) {
    static_assert(offsetof(Fingerprint, sequence) == 0);
    const std::uint64_t sequence = comm.agreed_calls++;
    std::memcpy(&mine[1], &sequence, sizeof sequence);
    comm::SharedPage& page = *comm.page;
    const progress::Deadline deadline(settings::values().timeout, comm.handle);
    if (const auto told = page.publish(mine, deadline); told != comm::SharedPage::Outcome::kDone)
        return without_route(told, deadline, {});
    std::vector<std::pair<int, Fingerprint>> others;
    for (int rank = 0; rank < comm.size; ++rank) {
        if (rank == comm.rank)
            continue;
        const comm::SharedPage::Record* words = page.peek(rank);
        if (words == nullptr && page.nonblocking(rank).end > sequence) {
            words = page.peek(rank);  // again: it publishes before it starts a later call
            if (words == nullptr)
                others.emplace_back(rank, begun_by(page, rank));
        }
        if (words != nullptr && !same_print(*words, mine))
            others.emplace_back(rank, print_in(*words));
    }
    if (std::optional<Decision> decision = given_up(comm, sequence))
        return std::move(*decision);
    return others.empty() ? Decision{} : mismatch(comm, print_in(mine), std::move(others));
}

bool has_page(comm::State& comm) {
    if (comm.page != nullptr && comm.page->closed())
        comm.page.reset();
    return comm.page != nullptr;
}

int share_page(comm::State& comm, const Fingerprint& print) {
    const bool wanted = !comm.page_tried && print.sequence >= comm::SharedPage::kWorth &&
                        comm.size <= comm::SharedPage::kMostRanks && settings::values().agree == settings::Agree::kFull;
    if (!wanted)
        return MPI_SUCCESS;
    comm.page_tried = true;
    return comm::SharedPage::make(comm);
}

std::string describe_mismatch(comm::State& comm, const Fingerprint& mine) {
    std::vector<Fingerprint> all(static_cast<std::size_t>(comm.size));
    real::Allgather(&mine, sizeof mine, MPI_BYTE, all.data(), sizeof mine, MPI_BYTE, comm.handle);
    return compare(all);
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
