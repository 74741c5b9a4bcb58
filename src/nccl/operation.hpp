// One operation on an NCCL communicator as a state machine that never blocks: prepared, launched, running (NCCL has put
// it on the streams), done. src/coll, src/ext/multi and p2p own these and determine the order of launches.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "nccl/communicator.hpp"
#include "nccl/job.hpp"
#include "progress/wait.hpp"

namespace swy::nccl {

class Operation {
  public:
    // The streams on which it runs: those of the communicator, or, where other operations use them too, its own. NCCL
    // keeps the order of launches across streams, and each stream has an event that tells when its work is done.
    enum class On : std::uint8_t { kCommunicatorsStreams, kOwnStreams };
    Operation(std::unique_ptr<Job> job, std::shared_ptr<Communicator> communicator, On on);
    ~Operation();  // one that was launched must be done, or its communicator aborted
    Operation(const Operation&) = delete;
    Operation& operator=(const Operation&) = delete;

    // To be called when the program makes its call: the operation runs after what the program has queued on its
    // streams. Returns false when a resource is missing. Other ranks that have agreed to launch it wait for this rank's
    // part all the same: launch() then makes it fail.
    bool ready();
    void launch();
    bool step();  // to be called after launch(); true when something changed

    // Tells whether NCCL has finished the launch, so that other operations may be launched on the communicator.
    bool launch_finished() const { return state_ >= State::kRunning; }
    bool done() const { return state_ == State::kDone; }
    // "" once done() is success. Otherwise the communicator has been aborted and the other members told, although the
    // operation may not be done before the cause is known.
    const std::string& failure() const { return failure_; }
    Communicator& communicator() { return *communicator_; }

    // Puts a job on a stream of the program's, in the context of the communicator's one member. NCCL has it on the
    // stream when this returns: where NCCL has to connect ranks first, this waits for them with MPI's progress, since
    // what the program queues next must come behind. Returns "" or the error, of which nobody has been told.
    // `in_graph`: the stream is being captured, and the graph uses what is given there as long as it is launched.
    static std::string enqueue(std::unique_ptr<Job> job, const std::shared_ptr<Communicator>& communicator,
                               device::Stream& programs, std::shared_ptr<void>* in_graph = nullptr);

  private:
    // kWaiting: for other operations to end, since ranks have to be connected. kFailed: for MPI to hear of the process
    // whose end may be the cause (Failures::may_be_explained).
    enum class State : std::uint8_t { kNew, kWaiting, kLaunching, kRunning, kFailed, kDone };
    class Body;
    void begin();
    bool advance();
    void try_to_launch();
    void look_whether_launched();
    void leave_others();
    void end(std::string failure);
    bool explained() const;
    void tell_failure();

    const std::shared_ptr<Communicator> communicator_;
    const std::shared_ptr<Body> body_;
    State state_ = State::kNew;
    bool counts_ = false;  // among the communicator's launches that have not ended
    std::string failure_;
    std::chrono::steady_clock::time_point failed_at_;
};

// Runs a job on the communicator's streams and waits, driving MPI's progress. Returns "" or the error: the communicator
// then is aborted, and the other members, which wait for this one, are told.
// `comm`: of the ranks that take part.
std::string run(std::unique_ptr<Job> job, const std::shared_ptr<Communicator>& communicator, MPI_Comm comm);

// The outcome of a launched operation: nothing while it runs, otherwise its failure, "" on success.
std::optional<std::string> ended(const Operation& operation, const progress::Deadline& deadline);

// For whoever has seen that a communicator has failed, on which no operation is under way that would wait so: waits,
// with MPI's progress, until MPI knows of a failed process or has had the time to hear of one.
void await_explanation(Communicator& communicator);

}  // namespace swy::nccl
