// A stream communicator: a communicator whose ranks have each bound a CUDA stream to it, or none. Where all ranks'
// streams are on GPUs that NCCL can use together, it has an NCCL communicator of its own, and what is enqueued is
// queued on the streams ("direct"). Else the host waits for the stream and makes the ordinary call.
#pragma once

#include <mpix_switchyard.h>

#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "carrier/nccl/communicator.hpp"
#include "device/device.hpp"
#include "device/scratch.hpp"
#include "route/reason.hpp"
#include "stream/bring.hpp"
#include "stream/object.hpp"
#include "stream/words.hpp"

namespace swy::stream {

struct Message;  // message.hpp

// A message of a rank to itself waits in a copy for its receive.
struct SelfSent {
    int tag;
    std::size_t bytes;
    device::Scratch copy;
};

class Communicator {
  public:
    // Collective over `comm`. MPI's code.
    static int create(MPI_Comm comm, MPIX_Stream stream, MPI_Comm* made);
    static std::shared_ptr<Communicator> find(MPI_Comm comm);  // null where it is none
    static void finish_all();                                  // before MPI goes down

    explicit Communicator(MPI_Comm handle) : handle(handle) {}
    Communicator(const Communicator&) = delete;
    Communicator& operator=(const Communicator&) = delete;

    bool direct() const { return nccl != nullptr; }

    // Waits, with MPI's progress, until the stream has come to here. "" or what went wrong. Not under the mutex.
    std::string wait_for_stream();

    // What has gone wrong here or elsewhere, as far as is known; aborts then, so that no stream waits for ever.
    std::string trouble();
    // This rank has failed: the others hear of it, who wait for it in NCCL.
    void fail(const std::string& why) { nccl->fail(why); }

    const MPI_Comm handle;
    MPIX_Stream stream = MPIX_STREAM_NULL;
    std::shared_ptr<const Object> object;  // null without a stream
    int rank = 0, size = 0;
    Reason reason = Reason::kNone;  // why it is not direct, the same on all ranks
    bool all_have_kernels = false;
    device::Location where;  // of the stream; ordinal -1 without one
    device::Lane lane;       // on the stream
    std::shared_ptr<carrier::nccl::Communicator> nccl;

    std::mutex mutex;  // of what follows, and of the order of launches
    std::optional<Words> words;
    std::deque<std::shared_ptr<Message>> pending;  // begun and not yet launched
    std::deque<SelfSent> self_sent;                // and not yet received
    HostCopies host_copies;

  private:
    int settle();  // direct or not
    Reason own_obstacle();
    int make_nccl(bool& made);
    int end();
    friend int end_communicator(MPI_Comm comm);

    MPI_Comm shadow_ = MPI_COMM_NULL;  // has the NCCL communicator for its own, and carries the words
};

}  // namespace swy::stream
