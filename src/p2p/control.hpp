// Control messages between the ranks of a job: on a duplicate of MPI_COMM_WORLD that no program sees, one after the
// other in the order they were sent between two ranks. p2p alone uses it, under the engine's lock.
#pragma once

#include <mpi.h>

#include <array>
#include <cstddef>
#include <cstdint>

#include "route/reason.hpp"

namespace swy::p2p {

enum class Word : std::uint8_t {
    kClear,    // receiver to sender: clear to send `id`; how is in `carrier`, `reason`, `slot`, `bytes`, `lane`
    kRelease,  // receiver to sender: the envelope that begins with `unique` was received into too small a buffer
    kAnswer,   // sender to receiver, of a clear to send that proposed the parent's communicator: `flag` is yes or no
    kFailed,   // either way: the transfer failed at the other end (`id` names the sender's, `slot` the receiver's)
    kLane,     // about a lane: `flag` is a LaneWord (lane.hpp), its id in `lane`
    kWhich,  // receiver to sender: a message of an envelope's length, with `tag`, came for `slot`, and was written over
    kThis,   // sender to receiver, in answer: its envelope is `unique` when `flag` is set; else it was no envelope
};

// How the payload travels, as the receiver has settled it.
enum class How : std::uint8_t { kNothing, kStaged, kLane, kParent, kCopy };

// Fixed in size, sent as bytes.
struct Control {
    Word word{};
    How how{};
    Reason reason{};  // why not over NCCL
    std::uint8_t flag = 0;
    std::int32_t tag = 0;     // of kRelease and kWhich
    std::uint64_t id = 0;     // the sender's transfer
    std::uint64_t slot = 0;   // the receiver's, and the tag of the chunks
    std::uint64_t bytes = 0;  // how many the receiver takes; of kRelease: how many of `unique` count
    std::uint64_t lane = 0;
    std::uint64_t offered = 0;  // a lane offered with this clear to send: its id
    std::uint64_t parts = 1;    // of kClear: in how many runs the receiver's data is,
    std::uint64_t part = 0;     // and the bytes of each
    std::array<std::byte, 128> unique{};
};

// Sends at once; keeps the bytes until they have left. `rank` is in MPI_COMM_WORLD. "" or what MPI says.
void send_control(int rank, const Control& control);

// Each word that has come, in turn, to whom it concerns. False when there was none.
using Receiver = void (*)(int rank, const Control& control);
bool receive_controls(Receiver receiver);

// The communicator for chunks of payloads: another duplicate, errors return.
MPI_Comm chunks();

// Collective over MPI_COMM_WORLD.
int start_control();
void stop_control();

}  // namespace swy::p2p
