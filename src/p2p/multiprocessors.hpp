// Room for messages on a GPU's multiprocessors. An NCCL kernel keeps one multiprocessor for each of its channels until
// its peer's kernel has done its part, and one that finds too few waits with all that is launched after it: then two
// GPUs may each run what the other one has queued. So a message is launched only when its channels fit beside those of
// the other messages and of a collective. Used by the transfers of pair_comm.cpp and shared.cpp, under the engine's
// lock.
//
// Why nothing that waits for room waits for ever. The lower rank of a message launches first (pair_comm.hpp), so what a
// process has launched waits only for processes of higher ranks to launch their parts. Take the highest rank: all that
// it has launched has been launched by its peers before, and runs there, since it had room; so it ends and gives its
// room back, and whatever waits for room there is launched in turn. The same then holds for the next lower rank, and so
// on. A collective takes none of the messages' room.
#pragma once

#include <span>
#include <vector>

namespace swy::p2p::pair_comms {

// How many channels a pair communicator may have whose operations run on these devices. `links`: NVLink may connect the
// two ends. Over PCI and networks NCCL uses two for a peer, of NVLink up to 32 (NCCL 2.18 to 2.28, paths.cc,
// ncclTopoGetNchannels); each takes about 12 MiB of device memory.
int most_channels(std::span<const int> ordinals, bool links);

class MultiprocessorClaim {
  public:
    MultiprocessorClaim() = default;
    ~MultiprocessorClaim() { end(); }
    MultiprocessorClaim(const MultiprocessorClaim&) = delete;
    MultiprocessorClaim& operator=(const MultiprocessorClaim&) = delete;

    // Takes that many multiprocessors of each device for messages. Returns false where they are not free; when no other
    // message runs on the devices they always are. Once true, it stays so until end().
    bool begin(std::span<const int> ordinals, int channels);
    void end();

  private:
    std::vector<int> ordinals_;
    int channels_ = 0;
};

}  // namespace swy::p2p::pair_comms
