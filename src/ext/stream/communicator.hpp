// A stream communicator: a communicator to which each rank has bound a CUDA stream, or none. Where all ranks' streams
// are on GPUs that NCCL can use together, it has an NCCL communicator of its own, and enqueued calls are queued on the
// streams ("direct"). Otherwise the host waits for the stream and makes the ordinary call.
#pragma once

#include <mpix_switchyard.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "call/call.hpp"
#include "call/reason.hpp"
#include "device/device.hpp"
#include "device/scratch.hpp"
#include "ext/stream/object.hpp"
#include "ext/stream/size_check.hpp"
#include "ext/stream/staged_operand.hpp"
#include "nccl/communicator.hpp"
#include "nccl/job.hpp"
#include "progress/wait.hpp"
#include "report/flight.hpp"

namespace swy::stream {

struct Message;  // message.hpp

// A message of a rank to itself, of which a copy is kept until its receive.
struct SelfSent {
    int tag;
    std::size_t bytes;
    device::Scratch copy;
};

// The error of a call that no graph can have as a part; `why` is a phrase.
std::string not_in_graph(std::string_view why);

class Communicator {
  public:
    // Collective over `comm`. Returns MPI's code.
    static int create(MPI_Comm comm, MPIX_Stream stream, MPI_Comm* made);
    static std::shared_ptr<Communicator> find(MPI_Comm comm);  // null where `comm` is not a stream communicator
    static void finish_all();                                  // called before MPI is finalized

    explicit Communicator(MPI_Comm handle) : handle(handle) {}
    Communicator(const Communicator&) = delete;
    Communicator& operator=(const Communicator&) = delete;

    bool direct() const { return nccl != nullptr; }

    // Waits, driving MPI's progress, until the work queued on the stream so far is done. Returns "" or the error.
    // Called under the mutex.
    std::string wait_for_stream();
    // The same for a call that the host makes for the reason `why`; an error where it would be captured.
    std::string lock_and_wait(Reason why);

    // Looks whether the stream is being captured into a graph; the first thing of every call, under the mutex. Returns
    // "" or why nothing can be queued on it.
    std::string look_at_capture();
    // What is queued is captured: it runs when the program launches the graph, so its end is neither marked nor
    // watched, and an error of such a call is this rank's alone.
    bool captured = false;
    std::vector<std::shared_ptr<void>> in_graphs;  // what captured work uses

    // Puts a job of NCCL's on the stream.
    std::string enqueue(std::unique_ptr<nccl::Job> job);

    // A failure on this or another rank, as far as is known; if there is one, the communicator is aborted, so that no
    // stream waits for ever.
    std::string trouble();
    // This rank has failed: tells the other ranks, which wait for it in NCCL.
    void fail(const std::string& why) { nccl->fail(why); }

    // Called under the mutex when a call's work is about to be queued on the stream. The flight recorder has the last
    // such call, which stands for those before it, until the stream has come to its end. The program may wait for that
    // outside MPI: the watchdog's thread notices where it never comes, and aborts the NCCL communicator.
    // Null where the work is captured.
    report::flight::Operation* begin_queuing(CallId id);
    report::flight::Operation* begin_queuing_collective(CallId id);

    const MPI_Comm handle;
    MPIX_Stream stream = MPIX_STREAM_NULL;
    std::shared_ptr<const Object> object;  // null without a stream
    int rank = 0, size = 0;
    Reason reason = Reason::kNone;  // why it is not direct, the same on all ranks
    bool all_have_kernels = false;
    device::Location where;        // of the stream; ordinal -1 without one
    device::Stream device_stream;  // on the program's stream
    std::shared_ptr<nccl::Communicator> nccl;

    std::mutex mutex;  // guards what follows, and the order of launches
    std::optional<SizeCheck> words;
    std::deque<std::shared_ptr<Message>> pending;  // started and not yet launched
    std::deque<SelfSent> self_sent;                // sent and not yet received
    HostCopies host_copies;

  private:
    struct Process {  // of another rank, on this host
        int rank, number;
        std::uint64_t began;
    };

    int choose_route();  // decides whether it is direct
    Reason own_obstacle();
    int make_nccl(bool& made);
    void find_processes();
    static void look_at_all() noexcept;  // on the watchdog's thread
    void look();
    std::string why_it_never_ends();
    int end();
    friend int end_communicator(MPI_Comm comm);

    CallId last_call_{};                       // queued on the stream
    report::flight::Operation queued_;         // the same, while it has not ended
    std::optional<progress::Deadline> limit_;  // of that; none while nothing is queued
    std::uint64_t collectives_ = 0;            // queued so far
    std::vector<Process> processes_;
    MPI_Comm private_comm_ = MPI_COMM_NULL;  // its NCCL communicator is `nccl`; transports the records of SizeCheck
};

}  // namespace swy::stream
