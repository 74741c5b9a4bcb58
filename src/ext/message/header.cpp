#include "ext/message/header.hpp"

#include <cstring>

#include "call/hash.hpp"

namespace swy::message {
namespace {

// Drawn at random.
constexpr std::uint64_t kMagic[2] = {0xb6d1f04e93a7582cu, 0x5e0c79f3284bd1a6u};

struct Fields {
    std::uint64_t magic[2];
    std::uint32_t metadata;
    std::uint8_t kind, where;
    std::uint16_t none;
    std::uint64_t bytes, check;
};
static_assert(sizeof(Fields) == kHeaderBytes);

std::uint64_t check_of(const Fields& fields) {
    std::uint64_t words[4];
    std::memcpy(words, &fields, sizeof words);
    std::uint64_t sum = call::kGoldenRatio;
    for (const std::uint64_t word : words)
        sum = call::finalise(sum ^ word);
    return sum;
}

}  // namespace

void write(const Header& header, std::span<std::byte, kHeaderBytes> bytes) {
    Fields fields{.magic = {kMagic[0], kMagic[1]},
                  .metadata = header.metadata,
                  .kind = static_cast<std::uint8_t>(header.kind),
                  .where = header.where,
                  .none = 0,
                  .bytes = header.bytes,
                  .check = 0};
    fields.check = check_of(fields);
    std::memcpy(bytes.data(), &fields, sizeof fields);
}

std::optional<Header> read(std::span<const std::byte> bytes) {
    if (bytes.size() < kHeaderBytes)
        return std::nullopt;
    Fields fields;
    std::memcpy(&fields, bytes.data(), sizeof fields);
    if (fields.magic[0] != kMagic[0] || fields.magic[1] != kMagic[1] || fields.check != check_of(fields))
        return std::nullopt;
    const Header header{static_cast<Kind>(fields.kind), fields.where, fields.metadata, fields.bytes};
    if (header.kind > Kind::kRefused || header.metadata > kWholeBytes ||
        (header.kind == Kind::kWithin && header.bytes > kWholeBytes) || header.whole() > bytes.size())
        return std::nullopt;
    return header;
}

}  // namespace swy::message
