#include "route/agreement.hpp"

#include <fmt/format.h>

#include <map>
#include <tuple>
#include <vector>

#include "datatype/element.hpp"
#include "real.hpp"
#include "report/trace.hpp"
#include "request/wait.hpp"
#include "route/operands.hpp"
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

Verdict trusted(const Vote& vote) {
    Verdict verdict;
    verdict.any_device = vote.device;
    verdict.any_host = vote.host;
    verdict.setup = vote.setup;
    verdict.obstacle = vote.obstacle;
    return verdict;
}

std::string ranks_in_words(const std::vector<int>& ranks) {
    constexpr std::size_t kShown = 8;
    std::string text = ranks.size() == 1 ? "rank" : "ranks";
    for (std::size_t i = 0; i < ranks.size() && i < kShown; ++i)
        text += fmt::format("{} {}", i == 0 ? "" : ",", ranks[i]);
    if (ranks.size() > kShown)
        text += fmt::format(" and {} more", ranks.size() - kShown);
    return text;
}

}  // namespace

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

int cast(const Call& call, comm::State& comm, const Vote& vote, bool begun, Fingerprint& print, Ballot& mine,
         Ballot& all, MPI_Request& request) {
    // Counted here, where the call has its place among the communicator's calls.
    print = {comm.agreed_calls++, vote.bytes, call.root, static_cast<std::uint16_t>(plain(call.id)), vote.op,
             vote.element};
    mine[kDevice] = vote.device;
    mine[kHost] = vote.host;
    mine[kObstacle] = static_cast<std::int64_t>(vote.obstacle);
    mine[kSetup] = static_cast<std::int64_t>(vote.setup);
    mine[kLarge] = vote.large;
    mine[kInFlight] = vote.in_flight;
    mine[kBegun] = begun;
    mine[kPrint] = hash(print);
    mine[kPrintComplement] = ~mine[kPrint];
    return real::Iallreduce(mine.data(), all.data(), kFields, MPI_INT64_T, MPI_MAX, comm.handle, &request);
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

// A rank that passes nothing cannot know what the others pass, however uniform the program is.
bool trusts(CallId id) {
    return settings::values().agree == settings::Agree::kTrust && !size_is_unknown(id);
}

Verdict agree(const Call& call, comm::State& comm, const Vote& vote, Fingerprint& print) {
    if (trusts(call.id))
        return trusted(vote);
    const report::trace::Part part("agreement");
    Verdict verdict;
    MPI_Request request = MPI_REQUEST_NULL;
    verdict.mpi_code = cast(call, comm, vote, false, print, comm.ballot_mine, comm.ballot_all, request);
    if (verdict.mpi_code != MPI_SUCCESS) {
        verdict.state = Verdict::State::kMpiError;
        return verdict;
    }
    if (!request::wait(request, request::Deadline(settings::values().timeout))) {
        verdict.state = Verdict::State::kTimeout;
        return verdict;
    }
    return read(comm.ballot_all);
}

std::string describe_mismatch(comm::State& comm, const Fingerprint& mine) {
    std::vector<Fingerprint> all(static_cast<std::size_t>(comm.size));
    real::Allgather(&mine, sizeof mine, MPI_BYTE, all.data(), sizeof mine, MPI_BYTE, comm.handle);
    return compare(all);
}

std::string compare(const std::vector<Fingerprint>& by_rank) {
    std::map<std::string, std::vector<int>> callers;
    for (std::size_t rank = 0; rank < by_rank.size(); ++rank)
        callers[in_words(by_rank[rank])].push_back(static_cast<int>(rank));
    std::string text = "the ranks' calls do not match";
    const char* separator = ": ";
    for (const auto& [what, ranks] : callers) {
        text += fmt::format("{}{}: {}", separator, ranks_in_words(ranks), what);
        separator = "; ";
    }
    return text;
}

}  // namespace swy::route
