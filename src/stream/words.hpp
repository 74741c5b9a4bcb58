// What ranks tell each other of the messages that they have queued: NCCL knows of no tags, and hangs or overruns where
// the sizes of two ends differ. A sender sends a word for each message, on a private communicator, and never waits;
// the receiver compares when the words are there.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <string>

namespace swy::stream {

class Words {  // for any thread
  public:
    explicit Words(MPI_Comm comm) : comm_(comm) {}

    // A message to `peer` is about to be queued. MPI's code.
    int tell(int peer, int tag, std::size_t bytes);
    // One from `peer` is.
    void expect(int peer, int tag, std::size_t bytes);

    // Takes in what has come. "" or, in words, the first two ends that do not match.
    std::string hear(int rank);

    // Has all been compared?
    bool quiet();

    // The sent words are MPI's no more: before the communicator goes.
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
        std::deque<Word> heard, expected;
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
