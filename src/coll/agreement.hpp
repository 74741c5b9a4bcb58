// The agreement: the small exchange by which the ranks of one collective decide on its route before any of them moves
// data (docs/decisions/002-both-ends-agree.md).
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "call/call.hpp"
#include "call/reason.hpp"
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
    Reason obstacle = Reason::kNone;
    std::string problem;  // error text: with kTimeout, and with kMismatch unless the ranks have to be asked for it
    bool told = false;    // with kTimeout: another rank has given it up, and told all
};

// A vote as it is sent and received.
using VoteRecord = std::array<std::int64_t, 12>;

// What must be equal on all ranks, in a form that can be sent when it is not.
struct Fingerprint {
    std::uint64_t sequence = 0;  // number among the agreed calls on this communicator
    std::uint64_t bytes = 0;
    std::int32_t root = MPI_PROC_NULL;
    std::uint16_t call = 0;
    std::uint8_t op = 0;
    std::uint8_t element = 0;
};
std::string in_words(const Fingerprint& print);

// The agreement of a non-blocking call. begin() starts it, and returns MPI's code; read() returns its result once
// `request` is complete.
int begin(const Call& call, comm::State& comm, const Vote& vote, Fingerprint& print, VoteRecord& mine, VoteRecord& all,
          MPI_Request& request);
Decision read(const VoteRecord& all);

// Fills in the vote record of one start of a persistent call, whose arguments were compared when the request was
// created. What must be equal now is the NCCL communicator that a rank would use, by its id (0: none): otherwise the
// result is kMismatch.
void fill_start(const Vote& vote, std::uint64_t nccl, VoteRecord& mine);

// The whole agreement of a blocking call: over the shared page where the communicator has one, otherwise by MPI.
// Collective over the communicator.
Decision agree(const Call& call, comm::State& comm, const Vote& vote, Fingerprint& print);

// The same for a rank that has host memory alone in the call, on a communicator with a shared page. Whatever the others
// have, such a rank makes the real call; so tell_host() publishes its record and does not wait. It finds a mismatch
// with ranks that came before it. The record, except for its number, is made by host_words() from a described vote of
// host memory.
comm::SharedPage::Record host_words(const Call& call, const Vote& vote);
Decision tell_host(comm::State& comm, comm::SharedPage::Record words);

// Has the communicator a shared page that is not closed?
bool has_page(comm::State& comm);

// Makes a shared page for the ranks' next agreements, where they can share memory and enough agreements have been made.
// Collective over the communicator, after an agreement on the call named by `print`. Returns MPI's code.
int share_page(comm::State& comm, const Fingerprint& print);

// Called after kMismatch, collective over the communicator: returns which rank called what, for the error text.
std::string describe_mismatch(comm::State& comm, const Fingerprint& mine);
// Returns the text alone, for all ranks or for those that are known.
std::string compare(const std::vector<Fingerprint>& by_rank);
std::string compare(std::vector<std::pair<int, Fingerprint>> prints);

}  // namespace swy::coll
