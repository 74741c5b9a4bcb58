// The envelope: the short message that stands in for a large device message in Open MPI's matching. Only converts to
// bytes and back. src/p2p and src/fastpath use it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace swy::call {

// Odd, so that few payloads have this size: for most messages, one comparison tells that they are not envelopes.
inline constexpr std::size_t kEnvelopeBytes = 101;
using EnvelopeBytes = std::array<std::byte, kEnvelopeBytes>;

// Drawn at random by the job's first rank at MPI_Init: no payload contains it by accident.
using Secret = std::array<std::uint64_t, 2>;

struct Envelope {
    std::uint64_t id = 0;                // of the transfer, unique at the sender
    std::uint64_t bytes = 0;             // of the payload
    std::uint32_t sender = 0;            // rank in MPI_COMM_WORLD
    bool contiguous = false;             // the sender's data is one run of device memory
    bool nccl = false;                   // the sender can use NCCL for it
    bool shares_gpu = false;             // and its NCCL accepts a second rank on its GPU (NCCL_MULTI_RANK_GPU_ENABLE)
    bool several = false;                // the data is several such runs, of one size; `contiguous` is not set
    bool maps = false;                   // the sender can write it into memory of another process of its host
    bool synchronous = false;            // stands for a host message of a synchronous send
    std::array<std::uint8_t, 16> gpu{};  // the sender's device, or all of them: p2p/devices.hpp, name_of()
    std::uint64_t host = 0;              // hash that tells hosts apart as NCCL does
    // How many pair communicators to this receiver have failed at the sender, which announces each by a kBroken
    // message.
    std::uint64_t pair_comms_failed = 0;
    // Without `nccl`, the Reason; with `several`, the number of runs; otherwise the id of the communicator's own NCCL
    // communicator at the sender, 0: none.
    std::uint64_t parent = 0;
    bool operator==(const Envelope&) const = default;
};

EnvelopeBytes write(const Envelope& envelope, const Secret& secret);

// Returns nothing for bytes that are not a valid envelope of this job.
std::optional<Envelope> read(std::span<const std::byte> bytes, const Secret& secret);

// The naming bytes precede the secret in an envelope; they are made of its id and the secret.
inline constexpr std::size_t kNamingBytes = 8;

}  // namespace swy::call
