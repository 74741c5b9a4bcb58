// The agreement: the small exchange by which the ranks of one collective settle its route before anybody moves (design
// rule 3).
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "comm/state.hpp"
#include "route/call.hpp"
#include "route/reason.hpp"

namespace swy::route {

// What one rank brings. All local tests come before: after the agreement no rank may fall back alone.
struct Vote {
    bool device = false;              // has device memory in the call
    bool host = false;                // has host memory in the call
    Reason obstacle = Reason::kNone;  // why this rank could not do it on NCCL
    comm::Setup setup = comm::Setup::kNone;
    bool large = false;        // it passes as much as the threshold, in a call whose size others do not know
    bool in_flight = false;    // this process has collectives that do not block under way
    std::uint64_t bytes = 0;   // size of the type signature that MPI wants equal on all ranks
    std::uint8_t element = 0;  // of a reduction
    std::uint8_t op = 0;
};

// The part of it that does not depend on where buffers are.
void describe(const Call& call, Vote& vote);

// What all ranks know afterwards; the same on every rank.
struct Verdict {
    enum class State : std::uint8_t { kSettled, kMismatch, kTimeout, kMpiError } state = State::kSettled;
    int mpi_code = MPI_SUCCESS;  // with kMpiError
    bool any_device = false, any_host = false, large = false, in_flight = false;
    comm::Setup setup = comm::Setup::kNone;
    bool begun = false;  // a rank made a call that does not block
    Reason obstacle = Reason::kNone;
    std::string problem;  // the error text: with kTimeout, and with kMismatch where the ranks need not be asked for it
};

// What is sent and received.
using Ballot = std::array<std::int64_t, 9>;

// What must be equal on all ranks, in a form that can be sent when it is not.
struct Fingerprint {
    std::uint64_t sequence = 0;  // of agreed calls on this communicator
    std::uint64_t bytes = 0;
    std::int32_t root = MPI_PROC_NULL;
    std::uint16_t call = 0;
    std::uint8_t op = 0;
    std::uint8_t element = 0;
};
std::string in_words(const Fingerprint& print);

// The agreement of a call that does not block: its beginning, which returns MPI's code, and what it has come to once
// `request` is complete.
int begin(const Call& call, comm::State& comm, const Vote& vote, Fingerprint& print, Ballot& mine, Ballot& all,
          MPI_Request& request);
Verdict read(const Ballot& all);

// The ballot of one start of a persistent call, which was compared with the others' when it was made. What must be
// equal now is the NCCL communicator that a rank would use, by its number (0: none): else it reads as kMismatch.
void fill_start(const Vote& vote, std::uint64_t nccl, Ballot& mine);

// SWITCHYARD_AGREE=trust: the vote of this rank is taken for everybody's, where a rank can know what the others pass.
bool trusts(CallId id);

// The whole agreement of a call that blocks: over memory that the ranks share, where they do, else by MPI. Collective
// over the communicator, unless the ranks are trusted.
Verdict agree(const Call& call, comm::State& comm, const Vote& vote, Fingerprint& print);

// The same for a rank that has host memory alone in the call, on a communicator with a board. Whatever the others have,
// such a rank makes the real call; so it tells them and does not wait. Finds a mismatch with those who came before it.
// `words` are what it tells of the call, but for its number. `vote` is one of host memory, described.
comm::Board::Words host_words(const Call& call, const Vote& vote);
Verdict tell_host(comm::State& comm, comm::Board::Words words);

// Is there one, still in step?
bool has_board(comm::State& comm);

// Has the ranks share memory for their next agreements, where they can and enough have been made. Collective over the
// communicator, after an agreement that has settled the call named by `print`. MPI's code.
int share_board(comm::State& comm, const Fingerprint& print);

// After kMismatch, collective over the communicator: who called what, for the error text.
std::string describe_mismatch(comm::State& comm, const Fingerprint& mine);
// The text alone, of all ranks or of those that are known.
std::string compare(const std::vector<Fingerprint>& by_rank);
std::string compare(std::vector<std::pair<int, Fingerprint>> prints);

}  // namespace swy::route
