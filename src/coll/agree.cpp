#include "coll/agree.hpp"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "call/hash.hpp"
#include "coll/agreement.hpp"
#include "coll/roll_call.hpp"
#include "comm/launch_order.hpp"
#include "progress/stall.hpp"
#include "progress/wait.hpp"
#include "real.hpp"
#include "report/trace.hpp"
#include "settings/settings.hpp"

namespace swy::coll {
namespace {

void pause() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
}

Agreement::Place place_of(const comm::State& comm) {
    return {comm.rank, comm.size};
}

// How long a rank waits before it tells the others that it is there: each tells all, so it does so only where it will
// give up, or where that are few messages.
double patience(const comm::State& comm) {
    constexpr int kFewRanks = 64;
    const double timeout = settings::values().timeout;
    const double stall = comm.size <= kFewRanks ? settings::values().stall : 0;
    return timeout > 0 && stall > 0 ? std::min(timeout, stall) : std::max(timeout, stall);
}

// The agreement's id among the ranks; 0 where they have none, or no use for it.
comm::OperationId id_of(const comm::State& comm, const comm::Launch& name, double seconds) {
    return comm.number != 0 && seconds > 0 ? comm::id_of(comm.number, name) : 0;
}

Agreement::End wait_for(Agreement& agreement) {
    constexpr int kSpins = 200;  // some microseconds, in which ranks that come together find each other
    const auto describe = [&] { return agreement.waits_here(); };
    const progress::Waiting waiting(describe);
    for (int turn = 0;; ++turn) {
        if (std::optional<Agreement::End> end = agreement.step())
            return std::move(*end);
        turn < kSpins ? pause() : progress::progress();
    }
}

Decision without_route(Decision::State state, std::string problem, int mpi_code = MPI_SUCCESS) {
    Decision decision;
    decision.state = state;
    decision.problem = std::move(problem);
    decision.mpi_code = mpi_code;
    return decision;
}

Decision decision_at(const Agreement::End& end, const VoteRecord& all, int mpi_code) {
    switch (end.how) {
        case Agreement::End::How::kComplete:
            return read(all);
        case Agreement::End::How::kFailed:
            return without_route(Decision::State::kMpiError, {}, mpi_code);
        case Agreement::End::How::kClosed:
            return without_route(Decision::State::kMismatch,
                                 "the ranks' calls do not match, as another rank has found");
        case Agreement::End::How::kGivenUp:
            break;
    }
    return without_route(Decision::State::kTimeout, end.why);
}

Decision agree_by_mpi(comm::State& comm, std::uint64_t sequence, const std::shared_ptr<VoteExchange>& votes,
                      const progress::Deadline& deadline) {
    if (const int rc = start(*votes, comm); rc != MPI_SUCCESS)
        return without_route(Decision::State::kMpiError, {}, rc);
    MpiTransport transport(comm, votes, MpiTransport::Errors::kRaised);
    JobMessages messages(comm, id_of(comm, {sequence}, patience(comm)));
    Agreement agreement(place_of(comm), transport, messages, deadline, patience(comm), kEntered);
    return decision_at(wait_for(agreement), votes->all, transport.code());
}

// The exchange has ended for this rank. Ranks that do not wait are in the real call by now, so those that find a
// mismatch say so alone.
Decision decision_of(comm::SharedPage& page, const PageTransport& transport) {
    if (transport.all_match()) [[likely]]
        return read(transport.all());
    page.close();
    return without_route(Decision::State::kMismatch, compare(transport.prints()));
}

Agreement::End wait_for(const comm::State& comm, PageTransport& transport, std::uint64_t sequence,
                        const progress::Deadline& deadline) {
    JobMessages messages(comm, id_of(comm, {sequence}, settings::values().timeout));
    Agreement agreement(place_of(comm), transport, messages, deadline, settings::values().timeout, kEntered);
    return wait_for(agreement);
}

Decision agree_by_page(comm::State& comm, const Fingerprint& print, const std::shared_ptr<VoteExchange>& votes,
                       const progress::Deadline& deadline) {
    comm::SharedPage& page = *comm.page;
    PageTransport transport(page, place_of(comm), page_record(votes->mine, print), PageTransport::WaitsFor::kAll,
                            votes->mine);
    const Agreement::End end = wait_for(comm, transport, print.sequence, deadline);
    if (end.how != Agreement::End::How::kComplete)
        return decision_at(end, transport.all(), MPI_SUCCESS);
    // Ranks that have started a non-blocking call wait for an exchange by MPI, which will find the mismatch. All ranks
    // can take part in it unless one has published that it has host memory, and has gone on.
    if (transport.some_nonblocking() && !read(transport.all()).any_host) {
        page.close();
        return agree_by_mpi(comm, print.sequence, votes, deadline);
    }
    return decision_of(page, transport);
}

// Ranks with host memory do not wait for the votes of all over a page.
bool may_be_alone(const comm::State& comm, const Decision& decision) {
    return comm.number != 0 && decision.state == Decision::State::kAgreed && !decision.any_host &&
           some_came_late(decision.spread);
}

// `answer` becomes the greatest of all ranks'. Returns how it has ended.
Agreement::End call_the_roll(const comm::State& comm, const comm::Launch& name, RollCall::For question, const char* did,
                             comm::Answer& answer) {
    RollCall roll(comm, comm::id_of(comm.number, name), question, std::move(answer), patience(comm), did);
    Agreement::End end = wait_for(roll.agreement());
    answer = roll.greatest();
    return end;
}

Decision agree_by_roll(const comm::State& comm, std::uint64_t sequence, const VoteRecord& mine) {
    comm::Answer votes(mine.begin(), mine.end());
    const Agreement::End end = call_the_roll(comm, {sequence}, RollCall::For::kVotes, kEntered, votes);
    VoteRecord all{};
    std::copy(votes.begin(), votes.end(), all.begin());
    return decision_at(end, all, MPI_SUCCESS);
}

Decision exchange_votes(comm::State& comm, const Fingerprint& print, const std::shared_ptr<VoteExchange>& votes,
                        const progress::Deadline& deadline) {
    if (has_page(comm))
        return agree_by_page(comm, print, votes, deadline);
    // A reduction by MPI that does not block may be taken for one of MPI_Comm_idup's.
    if (comm.duplicated && comm.number != 0)
        return agree_by_roll(comm, print.sequence, votes->mine);
    return agree_by_mpi(comm, print.sequence, votes, deadline);
}

}  // namespace

int begin(const Call& call, comm::State& comm, const Vote& vote, Fingerprint& print, VoteExchange& exchange) {
    print = print_of(call, vote, comm.agreed_calls++);
    fill(exchange.mine, vote, true);
    fill_print(exchange.mine, print);
    fill_time(exchange.mine, time_of_vote());
    if (comm.page != nullptr)
        comm.page->publish_nonblocking(print.sequence, print.call);
    return start(exchange, comm);
}

Decision agree(const Call& call, comm::State& comm, const Vote& vote, Fingerprint& print) {
    const report::trace::Part part("agreement");
    print = print_of(call, vote, comm.agreed_calls++);
    if (comm.votes == nullptr)
        comm.votes = std::make_shared<VoteExchange>();
    const std::shared_ptr<VoteExchange> votes = comm.votes;
    fill(votes->mine, vote, false);
    fill_print(votes->mine, print);
    fill_time(votes->mine, time_of_vote());
    const progress::Deadline deadline(settings::values().timeout, comm.handle);
    Decision decision = exchange_votes(comm, print, votes, deadline);
    if (comm::Answer none; may_be_alone(comm, decision))
        if (const Agreement::End end = call_the_roll(comm, {print.sequence}, RollCall::For::kPresence, kEntered, none);
            end.how != Agreement::End::How::kComplete)
            decision = decision_at(end, {}, MPI_SUCCESS);
    if (decision.state == Decision::State::kTimeout || decision.state == Decision::State::kMpiError)
        comm.votes = nullptr;  // MPI may still work on it
    return decision;
}

// The starts of persistent calls, which count from 1, have other names.
Decision ask(comm::State& comm, const Fingerprint& print, int number, Reason mine) {
    const comm::Launch name{print.sequence, -static_cast<std::uint64_t>(number)};
    comm::Answer answer{static_cast<std::int64_t>(mine)};
    const Agreement::End end = call_the_roll(comm, name, RollCall::For::kPresence, "ended the set-up of NCCL", answer);
    if (end.how != Agreement::End::How::kComplete)
        return decision_at(end, {}, MPI_SUCCESS);
    Decision decision;
    decision.obstacle = static_cast<Reason>(answer.front());
    return decision;
}

comm::SharedPage::Record host_record(const Call& call, const Vote& vote) {
    VoteRecord record{};
    fill(record, vote, false);
    return page_record(record, print_of(call, vote, 0));
}

Decision tell_host(comm::State& comm, comm::SharedPage::Record record) {
    const std::uint64_t sequence = comm.agreed_calls++;
    number(record, sequence, time_of_vote());
    PageTransport transport(*comm.page, place_of(comm), record, PageTransport::WaitsFor::kNobody);
    const double timeout = settings::values().timeout;
    if (timeout > 0 || transport.step() != AgreementTransport::State::kComplete) [[unlikely]] {
        const progress::Deadline deadline(timeout, comm.handle);
        const Agreement::End end = wait_for(comm, transport, sequence, deadline);
        if (end.how != Agreement::End::How::kComplete)
            return decision_at(end, {}, MPI_SUCCESS);
    }
    return transport.all_match() ? Decision{} : decision_of(*comm.page, transport);
}

bool has_page(comm::State& comm) {
    if (comm.page != nullptr && comm.page->closed())
        comm.page.reset();
    return comm.page != nullptr;
}

int share_page(comm::State& comm, const Fingerprint& print) {
    const bool wanted = !comm.page_tried && comm.one_host && print.sequence >= comm::SharedPage::kWorth &&
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

}  // namespace swy::coll
