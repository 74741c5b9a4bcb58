#include "call/envelope.hpp"

#include <algorithm>
#include <cstring>

#include "call/hash.hpp"

namespace swy::call {
namespace {

// An envelope consists of the naming bytes, the secret, the fields, and two checksums keyed by the secret: a payload
// that was made from an envelope seen in an earlier job, or a damaged one, does not pass.
constexpr std::size_t kFieldsAt = kNamingBytes + sizeof(Secret);
constexpr std::size_t kChecksAt = kEnvelopeBytes - 2 * sizeof(std::uint64_t);

enum Flag : std::uint8_t {
    kContiguous = 1,
    kNccl = 2,
    kSharesGpu = 4,
    kSeveral = 8,
    kSynchronous = 16,
    kMaps = 32,
    kAllFlags = 63
};

class Writer {
  public:
    explicit Writer(EnvelopeBytes& bytes) : bytes_(bytes) {}
    template <typename T>
    void put(const T& value) {
        std::memcpy(bytes_.data() + at_, &value, sizeof value);
        at_ += sizeof value;
    }
    std::size_t at() const { return at_; }

  private:
    EnvelopeBytes& bytes_;
    std::size_t at_ = 0;
};

class Reader {
  public:
    Reader(std::span<const std::byte> bytes, std::size_t at) : bytes_(bytes), at_(at) {}
    template <typename T>
    T get() {
        T value;
        std::memcpy(&value, bytes_.data() + at_, sizeof value);
        at_ += sizeof value;
        return value;
    }

  private:
    std::span<const std::byte> bytes_;
    std::size_t at_;
};

std::uint64_t checksum(std::span<const std::byte> bytes, std::uint64_t key) {
    std::uint64_t sum = mix(key);
    for (std::size_t at = 0; at < kChecksAt; at += sizeof sum) {
        std::uint64_t word = 0;
        std::memcpy(&word, bytes.data() + at, std::min(sizeof word, kChecksAt - at));
        sum = mix(sum ^ word);
    }
    return sum;
}

std::uint64_t name_of(std::uint64_t id, const Secret& secret) {
    return mix(secret[0] ^ mix(secret[1] + id));
}

}  // namespace

EnvelopeBytes write(const Envelope& envelope, const Secret& secret) {
    EnvelopeBytes bytes{};
    Writer to(bytes);
    to.put(name_of(envelope.id, secret));
    to.put(secret);
    to.put(envelope.id);
    to.put(envelope.bytes);
    to.put(envelope.sender);
    to.put(static_cast<std::uint8_t>((envelope.contiguous ? kContiguous : 0) | (envelope.nccl ? kNccl : 0) |
                                     (envelope.shares_gpu ? kSharesGpu : 0) | (envelope.several ? kSeveral : 0) |
                                     (envelope.synchronous ? kSynchronous : 0) | (envelope.maps ? kMaps : 0)));
    to.put(envelope.gpu);
    to.put(envelope.host);
    to.put(envelope.pair_comms_failed);
    to.put(envelope.parent);
    to.put(checksum(bytes, secret[0]));
    to.put(checksum(bytes, secret[1]));
    return bytes;
}

std::optional<Envelope> read(std::span<const std::byte> bytes, const Secret& secret) {
    if (bytes.size() != kEnvelopeBytes)
        return std::nullopt;
    if (Reader(bytes, kNamingBytes).get<Secret>() != secret)
        return std::nullopt;
    Reader checks(bytes, kChecksAt);
    if (checks.get<std::uint64_t>() != checksum(bytes, secret[0]) ||
        checks.get<std::uint64_t>() != checksum(bytes, secret[1]))
        return std::nullopt;
    Reader from(bytes, kFieldsAt);
    Envelope envelope;
    envelope.id = from.get<std::uint64_t>();
    envelope.bytes = from.get<std::uint64_t>();
    envelope.sender = from.get<std::uint32_t>();
    const auto flags = from.get<std::uint8_t>();
    envelope.contiguous = (flags & kContiguous) != 0;
    envelope.nccl = (flags & kNccl) != 0;
    envelope.shares_gpu = (flags & kSharesGpu) != 0;
    envelope.several = (flags & kSeveral) != 0;
    envelope.synchronous = (flags & kSynchronous) != 0;
    envelope.maps = (flags & kMaps) != 0;
    envelope.gpu = from.get<std::array<std::uint8_t, 16>>();
    envelope.host = from.get<std::uint64_t>();
    envelope.pair_comms_failed = from.get<std::uint64_t>();
    envelope.parent = from.get<std::uint64_t>();
    if ((flags & ~kAllFlags) != 0 || Reader(bytes, 0).get<std::uint64_t>() != name_of(envelope.id, secret))
        return std::nullopt;
    return envelope;
}

}  // namespace swy::call
