#include "p2p/mapped.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "p2p/devices.hpp"
#include "p2p/service.hpp"
#include "pack/kernel_pack.hpp"
#include "progress/wait.hpp"
#include "real.hpp"

namespace swy::p2p::mapped {
namespace {

std::set<int>& cannot_map() {
    static auto* ranks = new std::set<int>;  // not destroyed at exit
    return *ranks;
}

// Of the messages that use blocks, by their sender and the blocks' context.
std::map<std::pair<int, device::Context>, std::weak_ptr<void>>& claims() {
    static auto* all = new std::map<std::pair<int, device::Context>, std::weak_ptr<void>>;  // not destroyed at exit
    return *all;
}

// Not where the program has asked for host memory, or one end has only that.
bool stands_in(Reason reason) {
    switch (reason) {
        case Reason::kNoPairComm:
        case Reason::kDuplicateGpu:
        case Reason::kNoNccl:
        case Reason::kOldNccl:
        case Reason::kNcclFailed:
        case Reason::kForeignContext:
        case Reason::kDerivedType:
            return true;
        default:
            return false;
    }
}

bool can_be_mapped(const pack::Payload& payload) {
    return payload.device && payload.runs.empty() && payload.where.ordinal >= 0 && device::can_map() &&
           pack::in_one_place(payload);
}

}  // namespace

void describe(const pack::Payload& payload, call::Envelope& envelope) {
    envelope.maps = can_be_mapped(payload);
    if (envelope.maps)
        envelope.host = pair_comms::device_here(payload.where.ordinal).host;
}

bool possible(const call::Envelope& envelope, const pack::Payload& payload) {
    const auto from = static_cast<int>(envelope.sender);
    return envelope.maps && from != own_rank() && can_be_mapped(payload) &&
           envelope.host == pair_comms::device_here(payload.where.ordinal).host && cannot_map().count(from) == 0;
}

bool choose(const call::Envelope& envelope, const pack::Payload& payload, Control& clear, device::Mappable& block,
            Claim& claim) {
    if (!stands_in(clear.reason) || !possible(envelope, payload))
        return true;
    const std::pair user(static_cast<int>(envelope.sender), payload.where.context);
    if (device::Mappable::acquire(payload.where.context, block) != 0)
        return claims()[user].expired();
    claim = claims()[user].lock();
    if (claim == nullptr)
        claims()[user] = claim = std::make_shared<int>();
    clear.how = How::kMapped;
    std::copy(block.handle().begin(), block.handle().end(), clear.content.begin());
    return true;
}

void refused(int rank) {
    cannot_map().insert(rank);
}

std::byte* block_in(const Control& clear, const pack::Payload& payload) {
    device::MemoryHandle handle{};
    std::copy_n(clear.content.begin(), handle.size(), handle.begin());
    return device::map(payload.where.context, handle);
}

void finish(MPI_Comm ranks) {
    const int unmapped = device::unmap_all() ? 1 : 0;
    int all_unmapped = 0, done = 0;
    MPI_Request request = MPI_REQUEST_NULL;
    int rc = MPI_ERR_COMM;
    if (ranks != MPI_COMM_NULL)
        rc = real::Iallreduce(&unmapped, &all_unmapped, 1, MPI_INT, MPI_MIN, ranks, &request);
    while (rc == MPI_SUCCESS && done == 0) {
        progress::progress();
        rc = real::Test(&request, &done, MPI_STATUS_IGNORE);
    }
    if (rc != MPI_SUCCESS || all_unmapped == 0)
        device::forget_blocks();
}

}  // namespace swy::p2p::mapped
