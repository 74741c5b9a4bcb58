// Messages between the ranks of a job that the program does not see: on a duplicate of MPI_COMM_WORLD that MPI_Init
// makes in a job with GPUs. Tags tell their kinds apart: failure messages, by which a rank says that it has failed in
// an operation for which the others wait, or that it waits for them; the control messages of point-to-point; the chunks
// of its staged payloads; and the exchanges of exchange.hpp.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "comm/state.hpp"
#include "progress/wait.hpp"

namespace swy::comm {

// The id of an operation that a communicator's ranks do together, which all of them know: a collective, the set-up of
// an NCCL communicator, or all that is launched on one.
using OperationId = std::uint64_t;

// Called by init/lifecycle.cpp; start_control() is collective over MPI_COMM_WORLD.
int start_control();
void stop_control();

// Its errors return (MPI_ERRORS_RETURN). MPI_COMM_NULL in a job without GPUs.
MPI_Comm control_communicator();
inline constexpr int kFailureTag = 1, kControlTag = 2, kHandleTag = 3, kFirstChunkTag = 16;

// Returns the communicator's ranks as ranks of MPI_COMM_WORLD, which are those of the control communicator.
std::vector<int> ranks_in_world(const State& state);

// Tells the other ranks, given by their ranks in MPI_COMM_WORLD, that this one has failed in the operation, and why;
// `rank` is what the receivers call this rank. Does not block. Returns MPI's code.
int tell_failure(const std::vector<int>& world, int rank, OperationId what, const std::string& why);

// The same, but the sender learns when the others have the message: whatever it sends to anybody after that is received
// by ranks that know of the failure.
class Announcement {
  public:
    Announcement(const std::vector<int>& world, int rank, OperationId what, const std::string& why);
    ~Announcement();
    Announcement(const Announcement&) = delete;
    Announcement& operator=(const Announcement&) = delete;

    // Do the others have the message? Calls MPI_Testall. True, too, when they have not taken it in a time that is long
    // for processes that are in MPI.
    bool done();

  private:
    std::vector<MPI_Request> pending_;
    std::shared_ptr<void> message_;
    const progress::Deadline deadline_;
};

// Receives the failure messages that have arrived. Does not block; while none has arrived, it costs a look at memory.
void receive_failures();

// Has a rank told of its failure in `what`, as far as this rank has received messages? `first`, where it is not null,
// gets the first to do so.
struct Failure {
    int rank = 0;
    std::string why;
};
bool failure_known(OperationId what, Failure* first = nullptr);

// What a rank answers where the operation asks a question: at most kMostNumbers.
using Answer = std::vector<std::int64_t>;
inline constexpr std::size_t kMostNumbers = 62;

// tell_waiting() tells other ranks that this one waits in the operation, and its answer; ranks_waiting() returns the
// ranks whose messages of that kind have arrived, each with its answer. The oldest of 65536 are forgotten.
int tell_waiting(const std::vector<int>& world, int rank, OperationId what, const Answer& answer = {});
std::map<int, Answer> ranks_waiting(OperationId what);
void forget_waiting(OperationId what);  // drops those that have arrived

// Have the failure messages of `others` ranks been received? Then drops them, so that none is left over: called after
// all ranks know how many have failed. Does not block.
bool received_failures_of(OperationId what, int others);

// Drops the messages of an operation for which nobody will ask again.
void forget_failures(OperationId what);

}  // namespace swy::comm
