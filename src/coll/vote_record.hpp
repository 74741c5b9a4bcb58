// What the ranks of a collective tell each other before any of them moves data, and what all of them read out of it
// (docs/decisions/002-both-ends-agree.md). Values alone: how they travel is agree.hpp's matter.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "call/call.hpp"
#include "call/reason.hpp"
#include "comm/shared_page.hpp"
#include "comm/state.hpp"

namespace swy::coll {

// One rank's vote. All local tests are made before: after the agreement no rank may fall back alone.
struct Vote {
    bool device = false;              // has device memory in the call
    bool host = false;                // has host memory in the call
    Reason obstacle = Reason::kNone;  // why this rank could not do it on NCCL
    bool needs_setup = false;
    bool large = false;        // it passes at least the threshold, in a call whose size others do not know
    bool in_flight = false;    // this process has non-blocking collectives under way
    std::uint64_t setups = 0;  // set-ups that this rank has ended
    std::uint64_t bytes = 0;   // size of the type signature that MPI wants equal on all ranks
    int root = MPI_PROC_NULL;  // where all ranks name it alike
    std::uint8_t element = 0;  // of a reduction
    std::uint8_t op = 0;
};

// Fills in the part of the vote that does not depend on where buffers are.
void describe(const Call& call, Vote& vote);

// What all ranks know after the agreement; the same on every rank.
struct Decision {
    enum class State : std::uint8_t { kAgreed, kMismatch, kTimeout, kMpiError } state = State::kAgreed;
    int mpi_code = MPI_SUCCESS;  // with kMpiError
    bool any_device = false, any_host = false, large = false, in_flight = false;
    bool needs_setup = false;  // or has not ended the last one
    bool nonblocking = false;  // a rank has made a non-blocking call
    std::uint64_t setups = 0;  // set-ups that all ranks have ended
    std::int64_t spread = 0;   // milliseconds between the first rank's vote and the last one's
    Reason obstacle = Reason::kNone;
    std::string problem;  // error text: with kTimeout, and with kMismatch unless the ranks have to be asked for it
};

// What must be equal on all ranks, in a form that can be sent when it is not.
struct Fingerprint {
    std::uint64_t sequence = 0;  // number among the agreed calls on this communicator
    std::uint64_t bytes = 0;
    std::int32_t root = MPI_PROC_NULL;
    std::uint16_t call = 0;
    std::uint8_t op = 0;
    std::uint8_t element = 0;
};
static_assert(sizeof(Fingerprint) == 24, "sent as bytes: no padding");

Fingerprint print_of(const Call& call, const Vote& vote, std::uint64_t sequence);
std::string in_words(const Fingerprint& print);

// A vote as MPI reduces it. One reduction by MPI_MAX decides everything: a flag's maximum is "any", a value's and its
// complement's together say "all equal".
using VoteRecord = std::array<std::int64_t, 14>;

void fill(VoteRecord& record, const Vote& vote, bool nonblocking);
void fill_time(VoteRecord& record, std::int64_t now);  // of the vote, in milliseconds of a clock that all ranks have
void fill_print(VoteRecord& record, const Fingerprint& print);

// Fills in the record of one start of a persistent call, whose arguments were compared when the request was created.
// What must be equal now is the NCCL communicator that a rank would use, by its id (0: none): otherwise the result is
// kMismatch.
void fill_start(const Vote& vote, std::uint64_t nccl, VoteRecord& record);

// Reads the maximum of all ranks' records.
Decision read(const VoteRecord& all);

// The same as it stands on a shared page, without the fingerprint's fields of the record but with the fingerprint
// itself: so that a rank can say which call another one makes.
comm::SharedPage::Record page_record(const VoteRecord& record, const Fingerprint& print);
// Gives a record its number and its time.
void number(comm::SharedPage::Record& words, std::uint64_t sequence, std::int64_t now);
Fingerprint print_in(const comm::SharedPage::Record& words);
bool same_print(const comm::SharedPage::Record& a, const comm::SharedPage::Record& b);
bool has_device(const comm::SharedPage::Record& words);
void add(VoteRecord& all, const comm::SharedPage::Record& words);  // another rank's to the maximum

// Returns an error's text: which ranks called what, for all ranks or for those that are known.
std::string compare(const std::vector<Fingerprint>& by_rank);
std::string compare(std::vector<std::pair<int, Fingerprint>> prints);

}  // namespace swy::coll
