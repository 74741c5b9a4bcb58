// What a rank tells the others of a collective when its data has not come to host memory, so that none of them takes
// the result for right. It makes the real call all the same, on whatever that memory holds: if it left instead, its
// next call would match the others' present one. For the staged carrier and src/ext/multi.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "comm/job_messages.hpp"
#include "comm/state.hpp"

namespace swy::comm {

// Ids of collectives, the same on all ranks.
//
// next_unnumbered() returns the next id of a collective that no agreement numbers. Such calls are counted where device
// memory is passed, together on all communicators of the same processes: ranks that pass it in different ones do not
// learn of each other's failures.
OperationId next_unnumbered(State& state);
enum class Numbered : std::uint8_t { kAgreed, kMulti, kMultiEntered };
OperationId numbered(State& state, Numbered by, std::uint64_t number);
OperationId start_of(OperationId what, std::uint64_t start);  // of a start of a persistent collective

class Contribution {
  public:
    Contribution() = default;  // of a call whose ranks do not tell each other
    // Of the collective `what`, whose real call is made on `comm`.
    Contribution(MPI_Comm comm, OperationId what) : comm_(comm), what_(what) {}

    // Called before the real call: tells the others. Does not block. told() is true once they have the message, or do
    // not take it: a rank that completes the real call, when that is made afterwards, has what it needs to know.
    void fail(const std::string& why);
    bool told();  // calls MPI_Testall

    // Called after the real call: returns which rank failed before its own, and why. "": none.
    std::string failure_elsewhere() const;

  private:
    MPI_Comm comm_ = MPI_COMM_NULL;
    OperationId what_ = 0;
    std::unique_ptr<Announcement> announcement_;
};

}  // namespace swy::comm
