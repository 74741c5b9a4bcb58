// What a process determines about its own part of a collective on several buffers before it hears from the others, what
// the processes tell each other, and the decision that all of them derive from it. For collective.cpp and setup.cpp.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <string>
#include <vector>

#include "call/reason.hpp"
#include "coll/vote_record.hpp"
#include "device/device.hpp"
#include "ext/multi/call.hpp"
#include "nccl/collectives.hpp"

namespace swy::multi {

// The facts of one rank; sent as bytes.
struct Fact {
    coll::Fingerprint print;
    std::uint64_t ready_for = 0;  // hash of the slot counts with which the rank is ready for NCCL; 0: it is not
    std::uint64_t ready_on = 0;   // id of the NCCL communicator on which it is ready
    std::uint64_t attempts = 0;   // set-ups of an NCCL communicator that the rank has ended
    std::int64_t time = 0;        // coll::time_of_vote() of the rank
    std::int32_t slots = 0;
    std::int32_t tag = 0, attempt_tag = 0;  // for messages to the rank: of this call, of a set-up that this call begins
    std::uint8_t obstacle = 0;              // a Reason
    bool device = false, host = false;
    bool in_flight = false;  // the rank has operations that are launched in launch order
};
static_assert(sizeof(Fact) == 72, "sent as bytes: no padding");

// Identifies the call; `number` is its number on the communicator.
coll::Fingerprint fingerprint(const Kept& kept, std::uint64_t number);

std::uint64_t hash_of(const std::vector<int>& counts);  // never 0

// The decision, which is the same on every rank.
struct Decision {
    std::vector<int> counts;  // slots by rank
    bool any_device = false;
    bool in_flight = false;
    std::uint64_t attempts_ended = 0;  // by all ranks
    bool all_ready = false;            // with these slot counts, on one communicator
    Reason obstacle = Reason::kNone;   // why NCCL cannot be used
    int mpi_class = MPI_SUCCESS;       // class of an error
    std::string problem;
};
Decision read(const std::vector<Fact>& facts, const Kept& kept);

struct Survey {
    bool device = false, host = false;  // whether there is data in such memory
};
Survey survey_of(const Kept& kept);

// Tells whether this process's slots can go over NCCL, each on a device of its own. kNone: they can, and `works` holds
// each one's part.
struct LocalTest {
    LocalTest(const Kept& kept, const SlotCounts& slots, int rank);

    Reason obstacle = Reason::kNone;
    std::vector<nccl::Work> works;

    std::vector<device::Location> locations() const;
    std::vector<int> ordinals() const;

  private:
    Reason prepare(const Kept& kept, const SlotCounts& slots, int rank);
};

}  // namespace swy::multi
