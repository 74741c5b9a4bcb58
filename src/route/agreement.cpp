#include "route/agreement.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "datatype/element.hpp"
#include "real.hpp"
#include "report/trace.hpp"
#include "request/wait.hpp"
#include "route/arrivals.hpp"
#include "route/operands.hpp"
#include "route/tuning.hpp"
#include "settings/settings.hpp"

namespace swy::route {
namespace {

// One reduction by MPI_MAX settles everything: a flag's maximum is "any", a value's and its complement's together say
// "all equal".
enum Field : std::size_t {
    kDevice,
    kHost,
    kObstacle,
    kSetup,
    kLarge,
    kInFlight,
    kBegun,
    kPrint,
    kPrintComplement,
    kFields
};
static_assert(kFields == std::tuple_size_v<Ballot>);
static_assert(sizeof(Fingerprint) == 24, "sent as bytes: no padding");

std::uint64_t mix(std::uint64_t hash, std::uint64_t value) {  // the finaliser of SplitMix64, chained
    hash += value + 0x9e3779b97f4a7c15u;
    hash = (hash ^ (hash >> 30)) * 0xbf58476d1ce4e5b9u;
    hash = (hash ^ (hash >> 27)) * 0x94d049bb133111ebu;
    return hash ^ (hash >> 31);
}

std::int64_t hash(const Fingerprint& print) {
    std::uint64_t h = mix(0, print.sequence);
    h = mix(h, print.bytes);
    h = mix(h, static_cast<std::uint32_t>(print.root));
    h = mix(h, (std::uint64_t{print.call} << 16) | (std::uint64_t{print.op} << 8) | print.element);
    return static_cast<std::int64_t>(h);
}

Fingerprint print_of(const Call& call, const Vote& vote, std::uint64_t sequence) {
    return {sequence, vote.bytes, call.root, static_cast<std::uint16_t>(plain(call.id)), vote.op, vote.element};
}

// Counted here, where the call has its place among the communicator's calls.
Fingerprint fingerprint(const Call& call, comm::State& comm, const Vote& vote) {
    return print_of(call, vote, comm.agreed_calls++);
}

void fill(Ballot& ballot, const Vote& vote, bool begun) {
    ballot[kDevice] = vote.device;
    ballot[kHost] = vote.host;
    ballot[kObstacle] = static_cast<std::int64_t>(vote.obstacle);
    ballot[kSetup] = static_cast<std::int64_t>(vote.setup);
    ballot[kLarge] = vote.large;
    ballot[kInFlight] = vote.in_flight;
    ballot[kBegun] = begun;
}

void fill_print(Ballot& ballot, const Fingerprint& print) {
    ballot[kPrint] = hash(print);
    ballot[kPrintComplement] = ~ballot[kPrint];
}

int cast(comm::State& comm, const Ballot& mine, Ballot& all, MPI_Request& request) {
    return real::Iallreduce(mine.data(), all.data(), kFields, MPI_INT64_T, MPI_MAX, comm.handle, &request);
}

Verdict unsettled(Verdict::State state, int mpi_code = MPI_SUCCESS) {
    Verdict verdict;
    verdict.state = state;
    verdict.mpi_code = mpi_code;
    return verdict;
}

Verdict too_late(const std::vector<bool>& arrived) {
    Verdict verdict = unsettled(Verdict::State::kTimeout);
    verdict.problem = not_all(kEntered, arrived);
    return verdict;
}

Verdict agree_by_mpi(comm::State& comm, std::uint64_t sequence, const request::Deadline& deadline) {
    MPI_Request request = MPI_REQUEST_NULL;
    if (const int rc = cast(comm, comm.ballot_mine, comm.ballot_all, request); rc != MPI_SUCCESS)
        return unsettled(Verdict::State::kMpiError, rc);
    Arrivals arrivals(comm, comm.order != nullptr ? name_of(*comm.order, {sequence}) : 0, settings::values().timeout);
    int done = 0;
    while (real::Test(&request, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && !done) {
        if (deadline.passed())
            return too_late(arrivals.known());
        arrivals.look();
    }
    return read(comm.ballot_all);
}

// On a board: the ballot without the prints in one word, a byte a field, and then the fingerprint as it is.
constexpr std::size_t kFlags = kPrint;
static_assert(kFlags <= sizeof(std::int64_t));
static_assert(sizeof(comm::Board::Words) == sizeof(std::int64_t) + sizeof(Fingerprint));

comm::Board::Words words_of(const Ballot& ballot, const Fingerprint& print) {
    comm::Board::Words words{};
    for (std::size_t field = 0; field < kFlags; ++field)
        words[0] |= ballot[field] << (8 * field);
    std::memcpy(&words[1], &print, sizeof print);
    return words;
}

std::int64_t flag_in(const comm::Board::Words& words, std::size_t field) {
    return words[0] >> (8 * field) & 0xff;
}

bool same_print(const comm::Board::Words& a, const comm::Board::Words& b) {
    return std::equal(a.begin() + 1, a.end(), b.begin() + 1);
}

Fingerprint print_in(const comm::Board::Words& words) {
    Fingerprint print;
    std::memcpy(static_cast<void*>(&print), &words[1], sizeof print);
    return print;
}

// Of the last call that does not block, as much as is known.
Fingerprint begun_by(const comm::Board& board, int rank) {
    const comm::Board::Begun begun = board.begun(rank);
    Fingerprint print;
    print.sequence = begun.end - 1;
    print.call = begun.what;
    print.op = static_cast<std::uint8_t>(datatype::Operator::kNull);
    return print;
}

Verdict unsettled(comm::Board::Outcome outcome, const std::vector<bool>& arrived) {
    if (outcome == comm::Board::Outcome::kTooLate)
        return too_late(arrived);
    Verdict verdict = unsettled(Verdict::State::kMismatch);
    verdict.problem = "the ranks' calls do not match, as another rank has found";
    return verdict;
}

// In the exchange of the last words that this rank has told.
std::vector<bool> arrived(const comm::State& comm, std::uint64_t sequence) {
    std::vector<bool> ranks;
    for (int rank = 0; rank < comm.size; ++rank)
        ranks.push_back(comm.board->heard(rank) != nullptr || comm.board->begun(rank).end > sequence);
    return ranks;
}

// Found by this rank alone: those who do not wait are in the real call by now.
Verdict mismatch(comm::State& comm, const Fingerprint& mine, std::vector<std::pair<int, Fingerprint>> prints) {
    comm.board->close();
    prints.emplace_back(comm.rank, mine);
    Verdict verdict = unsettled(Verdict::State::kMismatch);
    verdict.problem = compare(std::move(prints));
    return verdict;
}

Verdict agree_by_board(comm::State& comm, const Fingerprint& print, const request::Deadline& deadline) {
    comm::Board& board = *comm.board;
    const comm::Board::Words mine = words_of(comm.ballot_mine, print);
    if (const auto told = board.tell(mine, deadline); told != comm::Board::Outcome::kDone)
        return unsettled(told, {});
    Ballot& all = comm.ballot_all;
    all = comm.ballot_mine;
    std::vector<std::pair<int, Fingerprint>> others;
    bool some_begun = false;
    bool differ = false;
    for (int step = 1; step < comm.size; ++step) {
        const int rank = (comm.rank + step) % comm.size;
        const comm::Board::Words* words = nullptr;
        switch (const auto outcome = board.await(rank, print.sequence, deadline, words)) {
            case comm::Board::Outcome::kDone:
                for (std::size_t field = 0; field < kFlags; ++field)
                    all[field] = std::max(all[field], flag_in(*words, field));
                differ |= !same_print(*words, mine);
                break;
            case comm::Board::Outcome::kBegun:
                some_begun = true;
                break;
            default:
                return unsettled(outcome, arrived(comm, print.sequence));
        }
    }
    if (!some_begun && !differ)
        return read(all);
    // Those who have begun something that does not block wait for an exchange by MPI, which will find the mismatch.
    // Everybody can take part in it unless somebody has told that it has host memory, and has gone on.
    if (some_begun && all[kHost] == 0) {
        board.close();
        return agree_by_mpi(comm, print.sequence, deadline);
    }
    for (int rank = 0; rank < comm.size; ++rank)
        if (rank != comm.rank)
            others.emplace_back(rank,
                                board.heard(rank) != nullptr ? print_in(*board.heard(rank)) : begun_by(board, rank));
    return mismatch(comm, print, std::move(others));
}

Verdict trusted(const Vote& vote) {
    Verdict verdict;
    verdict.any_device = vote.device;
    verdict.any_host = vote.host;
    verdict.setup = vote.setup;
    verdict.obstacle = vote.obstacle;
    return verdict;
}

}  // namespace

void describe(const Call& call, Vote& vote) {
    vote.bytes = message_bytes(call);
    vote.large = size_is_unknown(call.id) && payload_bytes(call) >= threshold_of(call);
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

Verdict read(const Ballot& all) {
    Verdict verdict;
    verdict.any_device = all[kDevice] != 0;
    verdict.any_host = all[kHost] != 0;
    verdict.obstacle = static_cast<Reason>(all[kObstacle]);
    verdict.setup = static_cast<comm::Setup>(all[kSetup]);
    verdict.large = all[kLarge] != 0;
    verdict.in_flight = all[kInFlight] != 0;
    verdict.begun = all[kBegun] != 0;
    // max(x) == ~max(~x) = min(x) exactly when every rank has the same x.
    if (all[kPrint] != ~all[kPrintComplement])
        verdict.state = Verdict::State::kMismatch;
    return verdict;
}

int begin(const Call& call, comm::State& comm, const Vote& vote, Fingerprint& print, Ballot& mine, Ballot& all,
          MPI_Request& request) {
    print = fingerprint(call, comm, vote);
    fill(mine, vote, true);
    fill_print(mine, print);
    if (comm.board != nullptr)
        comm.board->tell_begun(print.sequence, print.call);
    return cast(comm, mine, all, request);
}

void fill_start(const Vote& vote, std::uint64_t nccl, Ballot& mine) {
    fill(mine, vote, true);
    mine[kPrint] = static_cast<std::int64_t>(nccl);
    mine[kPrintComplement] = ~mine[kPrint];
}

// A rank that passes nothing cannot know what the others pass, however uniform the program is.
bool trusts(CallId id) {
    return settings::values().agree == settings::Agree::kTrust && !size_is_unknown(id);
}

Verdict agree(const Call& call, comm::State& comm, const Vote& vote, Fingerprint& print) {
    if (trusts(call.id))
        return trusted(vote);
    const report::trace::Part part("agreement");
    print = fingerprint(call, comm, vote);
    fill(comm.ballot_mine, vote, false);
    fill_print(comm.ballot_mine, print);
    const request::Deadline deadline(settings::values().timeout);
    return has_board(comm) ? agree_by_board(comm, print, deadline) : agree_by_mpi(comm, print.sequence, deadline);
}

comm::Board::Words host_words(const Call& call, const Vote& vote) {
    Ballot ballot{};
    fill(ballot, vote, false);
    return words_of(ballot, print_of(call, vote, 0));
}

Verdict tell_host(comm::State& comm, comm::Board::Words mine) {
    static_assert(offsetof(Fingerprint, sequence) == 0);
    const std::uint64_t sequence = comm.agreed_calls++;
    std::memcpy(&mine[1], &sequence, sizeof sequence);
    comm::Board& board = *comm.board;
    if (const auto told = board.tell(mine, request::Deadline(settings::values().timeout));
        told != comm::Board::Outcome::kDone)
        return unsettled(told, {});
    std::vector<std::pair<int, Fingerprint>> others;
    for (int rank = 0; rank < comm.size; ++rank) {
        if (rank == comm.rank)
            continue;
        const comm::Board::Words* words = board.heard(rank);
        if (words == nullptr && board.begun(rank).end > sequence) {
            words = board.heard(rank);  // again: it tells before it begins a later call
            if (words == nullptr)
                others.emplace_back(rank, begun_by(board, rank));
        }
        if (words != nullptr && !same_print(*words, mine))
            others.emplace_back(rank, print_in(*words));
    }
    return others.empty() ? Verdict{} : mismatch(comm, print_in(mine), std::move(others));
}

bool has_board(comm::State& comm) {
    if (comm.board != nullptr && comm.board->closed())
        comm.board.reset();
    return comm.board != nullptr;
}

int share_board(comm::State& comm, const Fingerprint& print) {
    const bool wanted = !comm.board_tried && print.sequence >= comm::Board::kWorth &&
                        comm.size <= comm::Board::kMostRanks && settings::values().agree == settings::Agree::kFull;
    if (!wanted)
        return MPI_SUCCESS;
    comm.board_tried = true;
    return comm::Board::make(comm);
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
        text += fmt::format("{}{}: {}", separator, ranks_in_words(ranks), what);
        separator = "; ";
    }
    return text;
}

}  // namespace swy::route
