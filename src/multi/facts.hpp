// What the processes tell each other of a collective on several buffers, and what all of them make of it. For
// collective.cpp alone.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <string>
#include <vector>

#include "multi/call.hpp"
#include "route/agreement.hpp"
#include "route/reason.hpp"

namespace swy::multi {

// Of one rank; sent as bytes.
struct Fact {
    route::Fingerprint print;
    std::uint64_t ready_for = 0;  // the numbers of places with which it is ready for NCCL, as a hash; 0: it is not
    std::uint64_t ready_on = 0;   // on which NCCL communicator
    std::uint64_t attempts = 0;   // to get one, that it has ended
    std::int32_t places = 0;
    std::int32_t tag = 0, attempt_tag = 0;  // for messages to it of this call, and of an attempt that this call begins
    std::uint8_t obstacle = 0;              // Reason
    bool device = false, host = false;
    bool in_flight = false;  // operations that are launched in turn
};
static_assert(sizeof(Fact) == 64, "sent as bytes: no padding");

// Which call it is, the communicator's one of this number.
route::Fingerprint fingerprint(const Kept& kept, std::uint64_t number);

std::uint64_t hash_of(const std::vector<int>& counts);  // never 0

// The same on every rank.
struct Verdict {
    std::vector<int> counts;  // of places, by rank
    bool any_device = false;
    bool in_flight = false;
    std::uint64_t attempts_ended = 0;  // by all
    bool all_ready = false;            // with these numbers, on one communicator
    Reason obstacle = Reason::kNone;   // to NCCL
    int mpi_class = MPI_SUCCESS;       // of an error
    std::string problem;
};
Verdict read(const std::vector<Fact>& facts, const Kept& kept);

}  // namespace swy::multi
