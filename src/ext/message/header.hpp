// The first message of MPIX_Send_message, and of MPIX_Bcast_message's first broadcast: a header, the metadata, and the
// payload where that is small. Only converts to bytes and back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace swy::message {

// The most bytes of header, metadata and small payload together: what Open MPI sends eagerly over shared memory, where
// the limit is 4 KiB with its own headers, and over everything else.
inline constexpr std::size_t kWholeBytes = 3840;
inline constexpr std::size_t kHeaderBytes = 40;

enum class Kind : std::uint8_t {
    kFollows,  // the payload is a message, or a broadcast, of its own
    kWithin,   // the payload comes after the metadata
    kRefused,  // the root of a broadcast has passed invalid arguments: nothing follows
};

struct Header {
    Kind kind = Kind::kFollows;
    std::uint8_t where = 0;      // MPIX_MESSAGE_HOST, ... of the sender's payload
    std::uint32_t metadata = 0;  // bytes
    std::uint64_t bytes = 0;     // of the payload

    // The bytes of the whole message that the header begins.
    std::size_t whole() const { return kHeaderBytes + metadata + (kind == Kind::kWithin ? bytes : 0); }
    bool operator==(const Header&) const = default;
};

void write(const Header& header, std::span<std::byte, kHeaderBytes> bytes);

// Returns nothing for bytes that do not begin with a valid header. The magic number that tells one from a program's own
// data is the same in all jobs, since jobs that were started apart may communicate.
std::optional<Header> read(std::span<const std::byte> bytes);

}  // namespace swy::message
