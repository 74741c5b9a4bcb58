// Carriers and the reasons for choosing them: the vocabulary of routes. The report, the trace and error texts print
// these words.
#pragma once

#include <cstdint>
#include <string_view>

namespace swy {

enum class Carrier : std::uint8_t { kHost, kNccl, kStaged, kPeer };
inline constexpr int kCarriers = 4;

// Why a call took its carrier. One row here is one row in reason.cpp's table of words and remedies. Where ranks
// disagree the largest value wins (the agreement takes the maximum), so the order is the order of what a person should
// hear first.
enum class Reason : std::uint8_t {
    kNone,            // the carrier is the one its buffers ask for
    kSmall,           // under the threshold: no agreement, staged is the lowest latency
    kNotAsked,        // the ranks agree on one in several of these calls (comm/agreement_interval.hpp), not on this one
    kBuffered,        // a buffered send: MPI keeps the message in the program's own host buffer
    kNoPairComm,      // point-to-point: the two ranks have no NCCL communicator for it yet, or none is free
    kNotReady,        // the communicator, or a message there, is not agreed on yet, and the call may not wait
    kThreads,         // another thread's collective was being launched, in which nobody waits for a turn
    kMixed,           // some ranks passed device memory, some host memory
    kOneRank,         // a communicator of one process
    kIntercomm,       // an intercommunicator that MPI_Comm_idup has made, or an enqueue call on one
    kSpansJobs,       // the communicator joins jobs that were started apart
    kNoStream,        // an enqueue call, where some rank's communicator has no CUDA stream
    kInsideMpi,       // called by MPI itself, or from a callback of the program's inside MPI
    kInvalid,         // an argument that MPI refuses
    kOutsideNccl,     // a call that NCCL has no part in
    kManyBuffers,     // a message of more buffers than an envelope names
    kDeviceSync,      // a message, with SWITCHYARD_SYNC=device
    kSeveralEdges,    // a neighbourhood in which two ranks have several edges
    kDatatype,        // NCCL has no such datatype
    kOperator,        // NCCL has no such operator (for this datatype)
    kDeterministic,   // a reduction whose bits depend on NCCL's order, with SWITCHYARD_DETERMINISTIC
    kDerivedType,     // not contiguous, and no kernel packs it
    kUnaligned,       // a buffer of a reduction does not begin at a multiple of its elements' size
    kSeveralDevices,  // one rank's buffers are on several devices
    kForeignContext,  // memory of a context that is not the device's primary one
    kDuplicateGpu,    // two ranks of the communicator use one GPU
    kNcclOff,         // SWITCHYARD_NCCL=0
    kNoNccl,          // libnccl.so.2 is not to be had on some rank
    kOldNccl,         // libnccl.so.2 is older than 2.18
    kNcclFailed,      // NCCL returned an error when the communicator was made
    kNoMemory,        // a resource that the route needs could not be had
};
inline constexpr int kReasons = static_cast<int>(Reason::kNoMemory) + 1;

std::string_view name(Carrier carrier);   // "host", "nccl", "staged", "peer"
std::string_view name(Reason reason);     // a short identifier, as in the JSON report: "mixed", "duplicate-gpu"
std::string_view explain(Reason reason);  // why, as a clause for a person: "two ranks of the communicator use one GPU"
std::string_view remedy(
    Reason reason);  // what to do about it, as a sentence; "" where there is nothing to do or nothing to gain

// Whether whoever runs the program, or writes it, can have such a call go over NCCL, and all ranks of the call know of
// the reason: SWITCHYARD_NCCL=require makes it an error then.
bool mendable(Reason reason);

}  // namespace swy
