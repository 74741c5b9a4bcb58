// The envelope: the short message that stands in for a large device message in Open MPI's matching (design section 6).
// Bytes and back, and nothing else; p2p alone uses it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace swy::p2p {

// Odd, so that it is the size of few payloads; one comparison tells that a message is none.
inline constexpr std::size_t kEnvelopeBytes = 101;
using EnvelopeBytes = std::array<std::byte, kEnvelopeBytes>;

// Drawn by the job's first rank at MPI_Init: no payload has it by accident.
using Secret = std::array<std::uint64_t, 2>;

struct Envelope {
    std::uint64_t id = 0;                // of the transfer, unique at the sender
    std::uint64_t bytes = 0;             // of the payload
    std::uint32_t sender = 0;            // rank in MPI_COMM_WORLD
    bool contiguous = false;             // the sender's data is one run of device memory
    bool nccl = false;                   // the sender can use NCCL for it
    bool shares_gpu = false;             // and takes a second rank on its GPU (NCCL_MULTI_RANK_GPU_ENABLE)
    bool several = false;                // it is several such runs, of one size, and `contiguous` is not set
    std::array<std::uint8_t, 16> gpu{};  // UUID of the sender's device; a name of all of them (devices.hpp)
    std::uint64_t host = 0;              // hash that tells hosts apart as NCCL does
    std::uint64_t lane = 0;  // how many lanes to this receiver have failed at the sender: it says so in as many words
    // Id of the communicator's own NCCL communicator there, 0: none; the Reason without nccl; else how many runs of
    // `several`.
    std::uint64_t parent = 0;
    bool operator==(const Envelope&) const = default;
};

EnvelopeBytes write(const Envelope& envelope, const Secret& secret);

// Nothing for bytes that are not an envelope of this job's, whole and unchanged.
std::optional<Envelope> read(std::span<const std::byte> bytes, const Secret& secret);

// The first bytes of an envelope tell it apart from every other one of its sender: what is left of it in a buffer that
// was too small names the transfer.
inline constexpr std::size_t kNamingBytes = 8;

}  // namespace swy::p2p
