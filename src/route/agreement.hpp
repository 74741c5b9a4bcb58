// The agreement: the small exchange by which the ranks of one collective settle its route before anybody moves (design
// rule 3).
#pragma once

#include <array>
#include <cstdint>
#include <string>
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

// What all ranks know afterwards; the same on every rank.
struct Verdict {
    enum class State : std::uint8_t { kSettled, kMismatch, kTimeout, kMpiError } state = State::kSettled;
    int mpi_code = MPI_SUCCESS;  // with kMpiError
    bool any_device = false, any_host = false, large = false, in_flight = false;
    comm::Setup setup = comm::Setup::kNone;
    bool begun = false;  // a rank made a call that does not block
    Reason obstacle = Reason::kNone;
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

// The beginning and the end of an agreement. A call that does not block is named as `begun`. MPI's code.
int cast(const Call& call, comm::State& comm, const Vote& vote, bool begun, Fingerprint& print, Ballot& mine,
         Ballot& all, MPI_Request& request);
Verdict read(const Ballot& all);

// SWITCHYARD_AGREE=trust: the vote of this rank is taken for everybody's, where a rank can know what the others pass.
bool trusts(CallId id);

// Collective over the communicator, unless the ranks are trusted.
Verdict agree(const Call& call, comm::State& comm, const Vote& vote, Fingerprint& print);

// After kMismatch, collective over the communicator: who called what, for the error text.
std::string describe_mismatch(comm::State& comm, const Fingerprint& mine);
std::string compare(const std::vector<Fingerprint>& by_rank);  // the text alone

}  // namespace swy::route
