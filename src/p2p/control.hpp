// Control messages between the ranks of a job. They travel on a duplicate of MPI_COMM_WORLD that no program sees, and
// arrive in the order in which they were sent between two ranks. Only p2p uses them, under the engine's lock.
#pragma once

#include <mpi.h>

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>

#include "call/reason.hpp"

namespace swy::p2p {

enum class MessageType : std::uint8_t {
    kClear,     // receiver to sender: clear to send `id`, in the way that `how`, `reason`, `slot`, `bytes` and
                // `pair_comm` give
    kRelease,   // receiver to sender: a message of an envelope's length, with `key`, was received into too small a
                // buffer
    kAnswer,    // sender to receiver, of a clear to send with kParent or kMapped: `flag` is yes or no
    kFailed,    // either way: the transfer failed at the other end (`id` names the sender's, `slot` the receiver's)
    kPairComm,  // about a pair communicator: `flag` is a PairCommMessage (pair_comm.hpp), `pair_comm` its id
    kWhich,  // receiver to sender: a message of an envelope's length, with `key`, came for `slot` and was overwritten:
             // which one was it?
    kThis,   // sender to receiver, in answer to kWhich: `content` is the envelope when `flag` is set; else the message
             // was no envelope
    kPayload,  // sender to receiver: `content` is the payload of the synchronous message whose envelope has this `id`
    kPartitions,  // sender to receiver: a partitioned message with `key`, of `bytes` bytes, comes as `parts` messages
                  // of `part` bytes, which have the tags from `id` on
    kAsk,  // sender to receiver: MPI has matched the envelope of the synchronous message `id`; was it matched by a
           // receive or by a probe?
};

// What both ends know of a message without its content: the communicator by its number (comm::number_of()), the ranks
// of both in it, and its tag.
struct MatchKey {
    std::int64_t comm = 0;
    std::int32_t source = 0, dest = 0, tag = 0;
    auto operator<=>(const MatchKey&) const = default;

    // Tells whether both may be of one message: a communicator without a number may be any.
    bool may_be(const MatchKey& other) const {
        return source == other.source && dest == other.dest && tag == other.tag &&
               (comm == other.comm || comm == 0 || other.comm == 0);
    }
};

// How the payload is transferred. The receiver decides this. kRefused: not at all, since it would be staged and
// SWITCHYARD_NCCL=require forbids that; an error at both ends. kMapped: the sender writes it into device memory of the
// receiver's process, which `content` names.
enum class How : std::uint8_t { kNothing, kStaged, kPairComm, kParent, kCopy, kMapped, kRefused };

// A control message: fixed in size, sent as bytes.
struct Control {
    MessageType type{};
    How how{};
    Reason reason{};  // why not over NCCL
    std::uint8_t flag = 0;
    bool chosen = false;      // of kClear: the receiver has chosen before; the sender ignores it
    MatchKey key{};           // of kRelease, kWhich and kPartitions
    std::uint64_t id = 0;     // the sender's transfer
    std::uint64_t slot = 0;   // the receiver's transfer; it also gives the tag of the chunks
    std::uint64_t bytes = 0;  // how many bytes the receiver takes
    std::uint64_t pair_comm = 0;
    std::uint64_t offered = 0;             // id of a pair communicator that this clear to send offers; 0: none
    std::uint64_t parts = 1;               // of kClear: the number of runs of the receiver's data,
    std::uint64_t part = 0;                // and the bytes of each run
    std::uint32_t channels = 0;            // of kPairComm: as many as this end allows the pair communicator
    std::array<std::byte, 128> content{};  // of kThis, kPayload, kFailed (text), kPairComm (a unique id, or devices)
                                           // and kClear with kMapped (a device::MemoryHandle)
};

// Starts to send the message, and keeps its bytes until MPI is done with them. `rank` is in MPI_COMM_WORLD.
void send_control(int rank, const Control& control);

// Waits until what has been sent to that rank so far has left, as progress::see_off() does.
void see_off_controls(int rank);

// Hands each control message that has arrived to `receiver`, in the order of arrival. Returns false when there was
// none.
using Receiver = void (*)(int rank, const Control& control);
bool receive_controls(Receiver receiver);

// The communicator for chunks of payloads: the same duplicate, on which errors return.
MPI_Comm chunks();

// Collective over MPI_COMM_WORLD.
int start_control();
void stop_control();

}  // namespace swy::p2p
