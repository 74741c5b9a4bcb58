// The description of one NCCL operation, which ranks compare with each other. Used by the whole library; independent of
// transports and streams.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include <nccl.h>

namespace vgpu::nccl {

enum class Kind : std::uint8_t {
    AllReduce,
    Reduce,
    Broadcast,
    AllGather,
    ReduceScatter,
    AlltoAll,
    Gather,
    Scatter,
    Send,
    Recv
};

// Sent between ranks as raw bytes: fixed size, no pointers, and all padding is written.
struct Call {
    std::uint64_t comm = 0;    // the communicator's identity, the same on all its ranks
    std::uint64_t serial = 0;  // the number of the call on that communicator on this rank, from 1
    std::uint64_t count = 0;   // as the program passed it
    std::int32_t rank = 0;     // the caller
    std::int32_t root = -1;    // root of a rooted collective, peer of a send or receive, else -1
    std::uint8_t op = 0;       // ncclRedOp_t; kPreMulSum for one that the program created
    Kind kind = Kind::AllReduce;
    std::uint8_t type = 0;   // ncclDataType_t
    std::uint8_t eager = 0;  // a send that completes before its receive is there
    std::uint32_t unused = 0;
};

inline constexpr std::uint8_t kPreMulSum = 5;

bool reduces(Kind kind);
inline bool point_to_point(Kind kind) {
    return kind == Kind::Send || kind == Kind::Recv;
}
bool rooted(Kind kind);

// Bytes of one element; 0 for a type that NCCL does not define.
std::size_t size_of(ncclDataType_t type);

const char* name_of(Kind kind);  // "ncclAllReduce"
const char* type_name(int type);
const char* op_name(int op);

// "ncclAllReduce(count 5, float32, sum), call 3 of communicator 0x12"
std::string describe(const Call& call);

enum class Fit { Matches, Differs };

// Returns whether the calls of two ranks match. `strict` compares all that NCCL's manual asks to be equal;
// otherwise only what decides whether the transfer on a GPU would complete with the right bytes.
Fit compare(const Call& mine, const Call& theirs, bool strict);

}  // namespace vgpu::nccl
