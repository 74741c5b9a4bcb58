// The agreement as a state machine, with a transport of the test's own and with the page that ranks of one node share,
// in every interleaving of three ranks. What each rank must find follows from who has entered, given up, or made
// another call.
#include "coll/agreement.hpp"

#include <gtest/gtest.h>

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "coll/agreement_transport.hpp"
#include "coll/vote_record.hpp"
#include "comm/shared_page.hpp"
#include "interleavings.hpp"
#include "report/units.hpp"

#include "../../random_seed.hpp"

namespace {

using namespace swy;
using coll::Agreement;
using coll::AgreementTransport;
using coll::PageTransport;
using comm::SharedPage;
using interleavings::kRanks;
using How = Agreement::End::How;

// What the ranks have in common: who has entered, who has told that it waits, and why the first has given up.
struct Together {
    std::array<bool, kRanks> entered{};
    std::vector<int> waiting;
    std::string failure;
};

class Transport final : public AgreementTransport {
  public:
    Transport(Together& together, int rank, bool shows_ranks) : together_(together), shows_(shows_ranks) {
        together.entered[static_cast<std::size_t>(rank)] = true;
    }
    State step() override {
        const auto& entered = together_.entered;
        return std::all_of(entered.begin(), entered.end(), [](bool e) { return e; }) ? State::kComplete
                                                                                     : State::kPending;
    }
    bool shows_ranks() const override { return shows_; }
    bool has_arrived(int rank) const override { return shows_ && together_.entered[static_cast<std::size_t>(rank)]; }

  private:
    Together& together_;
    const bool shows_;
};

class Messages final : public coll::AgreementMessages {
  public:
    Messages(Together& together, int rank) : together_(together), rank_(rank) {}
    bool possible() const override { return true; }
    void receive() override {}
    void tell_failure(const std::string&) override {
        if (together_.failure.empty())
            together_.failure = "rank " + std::to_string(rank_) + " has given it up";
    }
    std::string failure_elsewhere() override { return together_.failure; }
    void tell_waiting() override { together_.waiting.push_back(rank_); }
    std::vector<int> waiting() const override { return together_.waiting; }

  private:
    Together& together_;
    const int rank_;
};

const progress::Deadline kNever(0);
const progress::Deadline kPassed(1e-9);

// One rank: its first turn enters, the others step. Its deadline has passed when it has taken `patient` turns.
class Rank {
  public:
    Rank(Together& together, int rank, int patient, bool shows_ranks)
        : together_(together), rank_(rank), patient_(patient), shows_(shows_ranks), messages_(together, rank) {}

    void turn() {
        if (end.has_value())
            return;
        if (turns_++ == 0) {
            transport_.emplace(together_, rank_, shows_);
            agreement_.emplace(Agreement::Place{rank_, kRanks}, *transport_, messages_, deadline_, shows_ ? 0 : 1e-9,
                               coll::kEntered);
            return;
        }
        if (turns_ > patient_)
            deadline_ = kPassed;
        end = agreement_->step();
    }
    std::optional<Agreement::End> end;

  private:
    Together& together_;
    const int rank_, patient_;
    const bool shows_;
    int turns_ = 0;
    progress::Deadline deadline_ = kNever;
    Messages messages_;
    std::optional<Transport> transport_;
    std::optional<Agreement> agreement_;
};

constexpr int kPatient = 1000;

bool all_entered(const Together& together) {
    return std::all_of(together.entered.begin(), together.entered.end(), [](bool e) { return e; });
}

// What the error must say: the shorter of the two lists.
std::string who_is_missing(const Together& together) {
    std::vector<int> here, missing;
    for (int rank = 0; rank < kRanks; ++rank)
        (together.entered[static_cast<std::size_t>(rank)] ? here : missing).push_back(rank);
    return missing.size() <= here.size() ? "with no sign of " + report::ranks_in_words(missing)
                                         : "with " + report::ranks_in_words(here) + " here alone";
}

// Runs the ranks in this order, and then in turn until all have ended. Each end is checked when it comes.
void run(const interleavings::Schedule& schedule, const std::vector<int>& patience) {
    Together together;
    std::vector<std::unique_ptr<Rank>> ranks;
    for (int rank = 0; rank < kRanks; ++rank)
        ranks.push_back(std::make_unique<Rank>(together, rank, patience[static_cast<std::size_t>(rank)], true));
    const auto turn = [&](int which) {
        Rank& rank = *ranks[static_cast<std::size_t>(which)];
        const bool had_ended = rank.end.has_value();
        const std::string failure = together.failure;
        rank.turn();
        if (had_ended || !rank.end.has_value())
            return;
        if (!failure.empty()) {
            EXPECT_EQ(rank.end->how, How::kGivenUp) << "it goes on alone";
            EXPECT_EQ(rank.end->why, failure);
        } else if (all_entered(together)) {
            EXPECT_EQ(rank.end->how, How::kComplete);
        } else {
            EXPECT_EQ(rank.end->how, How::kGivenUp);
            EXPECT_NE(rank.end->why.find(who_is_missing(together)), std::string::npos) << rank.end->why;
        }
    };
    for (const int which : schedule)
        turn(which);
    for (int round = 0; round < 3; ++round)
        for (int which = 0; which < kRanks; ++which)
            turn(which);
    int complete = 0;
    for (const auto& rank : ranks) {
        ASSERT_TRUE(rank->end.has_value());
        complete += rank->end->how == How::kComplete ? 1 : 0;
    }
    EXPECT_TRUE(complete == 0 || complete == kRanks) << complete << " of the ranks go on";
}

TEST(Agreement, ends_alike_on_all_ranks_in_every_interleaving) {
    int schedules = 0;
    interleavings::for_each_choice(2, [&](const std::vector<int>& impatient) {
        std::vector<int> patience;
        for (const int one : impatient)
            patience.push_back(one != 0 ? 2 : kPatient);
        interleavings::for_each(4, [&](const interleavings::Schedule& schedule) {
            ++schedules;
            run(schedule, patience);
        });
    });
    EXPECT_EQ(schedules, 8 * 34650);  // 12! / (4!)^3
}

TEST(Agreement, names_the_ranks_that_have_told_that_they_wait_where_the_transport_shows_none) {
    Together together;
    Rank first(together, 0, 3, false), second(together, 1, kPatient, false);
    first.turn();
    second.turn();
    second.turn();  // steps: it has waited for half of its patience
    first.turn();
    EXPECT_EQ(together.waiting, (std::vector<int>{1, 0}));
    first.turn();
    first.turn();
    ASSERT_TRUE(first.end.has_value());
    EXPECT_NE(first.end->why.find("no sign of rank 2"), std::string::npos) << first.end->why;
}

TEST(Agreement, is_spoken_for_by_the_first_rank_that_waits) {
    Together together;
    Messages one(together, 1), two(together, 2);
    Transport transport(together, 1, false);
    Agreement of_one({1, kRanks}, transport, one, kNever, 0, "done it"),
        of_two({2, kRanks}, transport, two, kNever, 0, "");
    together.waiting = {1, 2};
    EXPECT_NE(of_one.waits_here().find("not all ranks have done it"), std::string::npos);
    EXPECT_EQ(of_two.waits_here(), "");
}

// What a rank does in one call on the page.
enum Kind { kDevice, kHost, kOtherCall, kNonblocking };

class Page {
  public:
    Page() : file_(memfd_create("test", MFD_CLOEXEC)) {
        if (file_ < 0 || ftruncate(file_, static_cast<off_t>(SharedPage::bytes_for(kRanks))) != 0)
            throw std::runtime_error("no memory to share");
        for (int rank = 0; rank < kRanks; ++rank)
            ranks.push_back(SharedPage::map(file_, rank, kRanks));
    }
    ~Page() { close(file_); }
    Page(const Page&) = delete;
    Page& operator=(const Page&) = delete;
    std::vector<std::unique_ptr<SharedPage>> ranks;

  private:
    const int file_;
};

coll::Fingerprint print_of(int kind, std::uint64_t number) {
    coll::Fingerprint print;
    print.sequence = number;
    print.call = static_cast<std::uint16_t>(kind == kOtherCall ? CallId::kReduce : CallId::kAllreduce);
    return print;
}

// A rank that makes one call after the other, the first of which has the number `first`.
class Caller {
  public:
    Caller(SharedPage& page, int rank, std::vector<int> kinds, std::uint64_t first = 0)
        : page_(page), rank_(rank), kinds_(std::move(kinds)), first_(first) {}

    void turn() {
        if (ended())
            return;
        const int kind = kinds_[call_];
        if (kind == kNonblocking) {
            page_.publish_nonblocking(first_ + call_, static_cast<std::uint16_t>(CallId::kIallreduce));
            ++call_;
            return;
        }
        if (!transport_) {
            coll::Vote vote;
            vote.device = kind != kHost;
            vote.host = kind == kHost;
            coll::VoteRecord record{};
            coll::fill(record, vote, false);
            transport_.emplace(
                page_, Agreement::Place{rank_, kRanks}, coll::page_record(record, print_of(kind, first_ + call_)),
                kind == kHost ? PageTransport::WaitsFor::kNobody : PageTransport::WaitsFor::kAll, record);
        }
        const auto state = transport_->step();
        if (state == AgreementTransport::State::kPending)
            return;
        const bool closed = state == AgreementTransport::State::kClosed;
        matched.push_back(!closed && transport_->all_match());
        decisions.push_back(coll::read(transport_->all()));
        if (!matched.back())
            page_.close();
        transport_.reset();
        ++call_;
    }
    bool ended() const { return call_ == kinds_.size() || (!matched.empty() && !matched.back()); }
    std::vector<bool> matched;
    std::vector<coll::Decision> decisions;

  private:
    SharedPage& page_;
    const int rank_;
    const std::vector<int> kinds_;
    const std::uint64_t first_;
    std::size_t call_ = 0;
    std::optional<PageTransport> transport_;
};

std::vector<Caller> run_on_page(Page& page, const interleavings::Schedule& schedule,
                                const std::vector<std::vector<int>>& kinds, std::uint64_t first = 0) {
    std::vector<Caller> callers;
    callers.reserve(kRanks);
    for (int rank = 0; rank < kRanks; ++rank)
        callers.emplace_back(*page.ranks[static_cast<std::size_t>(rank)], rank, kinds[static_cast<std::size_t>(rank)],
                             first);
    for (const int rank : schedule)
        callers[static_cast<std::size_t>(rank)].turn();
    for (int round = 0; round < 4; ++round)
        for (Caller& caller : callers)
            caller.turn();
    return callers;
}

TEST(Page_transport, brings_the_same_decision_to_all_that_wait) {
    Page page;
    std::uint64_t number = 0;
    interleavings::for_each_choice(4, [&](const std::vector<int>& choice) {
        std::vector<std::vector<int>> kinds;
        for (const int two : choice)
            kinds.push_back({two % 2, two / 2});
        interleavings::for_each(3, [&](const interleavings::Schedule& schedule) {
            const std::vector<Caller> callers = run_on_page(page, schedule, kinds, number);
            number += 2;
            for (std::size_t rank = 0; rank < kRanks; ++rank) {
                ASSERT_EQ(callers[rank].matched, (std::vector<bool>{true, true}));
                for (std::size_t call = 0; call < 2; ++call) {
                    if (kinds[rank][call] == kHost)
                        continue;  // it does not wait, and knows nothing of the others
                    const auto has = [&](Kind kind) {
                        return std::any_of(kinds.begin(), kinds.end(), [&](const auto& k) { return k[call] == kind; });
                    };
                    ASSERT_EQ(callers[rank].decisions[call].any_device, has(kDevice));
                    ASSERT_EQ(callers[rank].decisions[call].any_host, has(kHost));
                }
            }
        });
    });
}

// Ranks with host memory do not wait, so one that has come first goes on. None that waits does.
TEST(Page_transport, lets_no_rank_that_waits_go_on_where_calls_do_not_match) {
    interleavings::for_each_choice(4, [](const std::vector<int>& choice) {
        std::vector<std::vector<int>> kinds;
        for (const int kind : choice)
            kinds.push_back({kind});
        const auto calls = [&](Kind kind) { return std::count(choice.begin(), choice.end(), kind); };
        const bool match = calls(kNonblocking) == 0 && (calls(kOtherCall) == 0 || calls(kOtherCall) == kRanks);
        interleavings::for_each(2, [&](const interleavings::Schedule& schedule) {
            Page page;
            const std::vector<Caller> callers = run_on_page(page, schedule, kinds);
            for (std::size_t rank = 0; rank < kRanks; ++rank) {
                ASSERT_TRUE(callers[rank].ended());
                if (choice[rank] != kNonblocking && (match || choice[rank] != kHost)) {
                    ASSERT_EQ(callers[rank].matched, std::vector<bool>{match});
                }
            }
        });
    });
}

// Each of them has published before one closes the page, so all find what does not match for themselves.
TEST(Page_transport, shows_all_that_wait_what_does_not_match_though_one_closes_the_page_at_once) {
    for (int round = 0; round < 200; ++round) {
        Page page;
        std::array<std::size_t, kRanks> named{};
        const auto call = [&](int rank, int kind) {
            SharedPage& mine = *page.ranks[static_cast<std::size_t>(rank)];
            coll::VoteRecord record{};
            coll::fill(record, {}, false);
            PageTransport transport(mine, {rank, kRanks}, coll::page_record(record, print_of(kind, 0)),
                                    PageTransport::WaitsFor::kAll, record);
            auto state = AgreementTransport::State::kPending;
            while (state == AgreementTransport::State::kPending)
                state = transport.step();
            mine.close();
            if (state == AgreementTransport::State::kComplete)
                named[static_cast<std::size_t>(rank)] = transport.prints().size();
        };
        std::thread first(call, 0, kDevice), second(call, 1, kDevice);
        call(2, kOtherCall);
        first.join();
        second.join();
        ASSERT_EQ(named, (std::array<std::size_t, kRanks>{kRanks, kRanks, kRanks})) << "round " << round;
    }
}

TEST(Page_transport, does_not_overwrite_what_a_rank_has_not_read) {
    Page page;
    Caller ahead(*page.ranks[0], 0, std::vector<int>(100, kHost)),
        behind(*page.ranks[1], 1, std::vector<int>(100, kDevice)),
        last(*page.ranks[2], 2, std::vector<int>(100, kHost));
    for (int turn = 0; turn < 200; ++turn)
        ahead.turn();
    EXPECT_LT(ahead.matched.size(), 100U) << "nobody else has come";
    while (!behind.ended())
        for (Caller* caller : {&behind, &last, &ahead})
            caller->turn();
    EXPECT_EQ(behind.matched, std::vector<bool>(100, true));
    for (const coll::Decision& decision : behind.decisions)
        EXPECT_TRUE(decision.any_host && decision.any_device);
}

TEST(Vote_record, reads_the_same_from_a_page_as_from_MPI) {
    const unsigned seed = random_seed();
    std::printf("seed %u\n", seed);
    std::mt19937_64 random(seed);
    const auto flip = [&] { return random() % 3 == 0; };
    for (int round = 0; round < 20000; ++round) {
        coll::VoteRecord by_mpi{}, by_page{};
        bool device = false, host = false, large = false, setup = false;
        int obstacle = 0;
        std::int64_t first = 1000, last = 0;
        std::uint64_t least = ~std::uint64_t{0}, most = 0;
        for (int rank = 0; rank < kRanks; ++rank) {
            coll::Vote vote;
            device |= vote.device = flip();
            host |= vote.host = flip();
            large |= vote.large = flip();
            setup |= vote.needs_setup = random() % 8 == 0;
            vote.obstacle = flip() ? static_cast<Reason>(random() % kReasons) : Reason::kNone;
            obstacle = std::max(obstacle, static_cast<int>(vote.obstacle));
            const auto now = static_cast<std::int64_t>(random() % 1000);
            first = std::min(first, now);
            last = std::max(last, now);
            vote.setups = 1000 + random() % 2;
            least = std::min(least, vote.setups);
            most = std::max(most, vote.setups);
            coll::VoteRecord record{};
            coll::fill(record, vote, false);
            coll::fill_print(record, print_of(kDevice, 7));
            coll::fill_time(record, now);
            const SharedPage::Record words = coll::page_record(record, print_of(kDevice, 7));
            for (std::size_t i = 0; i < record.size(); ++i)
                by_mpi[i] = rank == 0 ? record[i] : std::max(by_mpi[i], record[i]);
            if (rank == 0)
                by_page = record;
            coll::add(by_page, words);
        }
        for (const coll::VoteRecord& all : {by_mpi, by_page}) {
            const coll::Decision decision = coll::read(all);
            ASSERT_EQ(decision.state, coll::Decision::State::kAgreed);
            ASSERT_EQ(decision.any_device, device);
            ASSERT_EQ(decision.any_host, host);
            ASSERT_EQ(decision.large, large);
            ASSERT_EQ(decision.needs_setup, setup || least != most);
            ASSERT_EQ(decision.setups, least);
            ASSERT_EQ(decision.spread, last - first);
            ASSERT_EQ(static_cast<int>(decision.obstacle), obstacle);
        }
    }
}

}  // namespace
