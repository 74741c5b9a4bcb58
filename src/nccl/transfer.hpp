// Data between two or more processes by ncclSend and ncclRecv, as one job. A process may have several members in the
// communicator, one for each of its devices. p2p determines the order of transfers, src/ext/stream that of a stream's
// messages: the launches of two ranks on one communicator must match.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "nccl/job.hpp"
#include "pack/packed.hpp"

namespace swy::nccl {

// One ncclSend or ncclRecv: between a member of this process, given by its index among them, and a rank of the
// communicator.
struct Piece {
    bool send = false;
    std::size_t member = 0;
    int peer = 0;
    void* data = nullptr;
    std::size_t bytes = 0;
};

// All pieces as one NCCL group, in which no order can deadlock; pieces between the same two ranks match in this order.
// There is at least one. They are in the order of their members. With
// `packed` they are all of one member and direction, in that memory: a kernel of the same stream packs it before they
// are sent, or unpacks it once they are received.
std::unique_ptr<Job> transfer(std::vector<Piece> pieces, std::shared_ptr<const pack::Packed> packed);

// Sends nothing to, and receives nothing from, each of these: NCCL connects them thereby. The pieces' data and
// direction do not count.
std::unique_ptr<Job> greeting(const std::vector<Piece>& pieces);

}  // namespace swy::nccl
