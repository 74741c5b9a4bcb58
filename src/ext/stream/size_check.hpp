// What ranks tell each other about the messages that they have queued: NCCL has no tags, and hangs or overruns where
// the sizes of the two ends differ. A sender sends a record for each message, on a private communicator, and never
// waits; the receiver compares when the records have arrived.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <string>

namespace swy::stream {

class SizeCheck {  // thread-safe
  public:
    explicit SizeCheck(MPI_Comm comm) : comm_(comm) {}

    // To be called when a message to `peer` is about to be queued. Returns MPI's code.
    int tell(int peer, int tag, std::size_t bytes);
    // To be called when a receive from `peer` is about to be queued.
    void expect(int peer, int tag, std::size_t bytes);

    // Receives the records that have arrived. Returns "" or a description of the first two ends that do not match.
    std::string receive(int rank);

    // Tells whether everything expected has been compared.
    bool quiet();

    // Completes the sends of the records; called before the communicator is freed.
    void finish();

  private:
    struct Word {
        std::uint64_t bytes = 0;
        std::int32_t tag = 0, unused = 0;
    };
    struct Sent {
        Word word;
        MPI_Request request = MPI_REQUEST_NULL;
    };
    struct Peer {
        std::deque<Word> received, expected;
        std::uint64_t compared = 0;
    };
    static std::string compare(int source, int rank, Peer& peer);

    const MPI_Comm comm_;
    std::mutex mutex_;
    std::deque<Sent> sent_;
    std::map<int, Peer> peers_;
    std::size_t expected_ = 0;
};

}  // namespace swy::stream
