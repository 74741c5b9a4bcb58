// One operation's exchange with one peer: the two calls that must match, and the bytes to send and to receive once they
// do.
#pragma once

#include <cstddef>
#include <deque>
#include <optional>
#include <vector>

#include "vgpu/nccl/call.hpp"
#include "vgpu/nccl/reducer.hpp"

namespace vgpu::nccl {

struct Outgoing {
    const std::byte* data = nullptr;
    std::size_t bytes = 0;
    const std::size_t* ready = nullptr;  // how many may be sent by now; null: all
    std::size_t sent = 0;
};

struct Incoming {
    std::byte* data = nullptr;
    std::size_t bytes = 0;
    Reducer* reducer = nullptr;  // takes the bytes instead of `data`
    int source = -1;             // the rank that the reducer knows the peer by
    std::size_t received = 0;
};

struct Exchange {
    Call mine;
    int peer = -1;  // in the family's ranks
    std::vector<Outgoing> out;
    std::vector<Incoming> in;
    bool matched = false;
    std::optional<Call> conflict;  // what the peer calls instead

    std::size_t out_at = 0;
    std::size_t in_at = 0;
    bool done() const { return matched && out_at == out.size() && in_at == in.size(); }
};

// All that is done at once; the operation is over when every exchange and the reducer are done.
// A deque: links keep pointers to the exchanges.
struct Step {
    std::deque<Exchange> exchanges;
    std::optional<Reducer> reducer;
};

}  // namespace vgpu::nccl
