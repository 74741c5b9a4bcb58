#include "route/operands.hpp"

#include <algorithm>
#include <numeric>

#include "carrier/staged/staged.hpp"
#include "datatype/layout.hpp"
#include "datatype/quick.hpp"
#include "device/device.hpp"
#include "real.hpp"
#include "route/job.hpp"

namespace swy::route {
namespace {

// Elements of an operand's blocks together, for the shapes whose counts the call itself holds; 0 for the others.
std::size_t elements(const Operand& operand, int ranks) {
    const auto count = static_cast<std::size_t>(std::max<MPI_Count>(operand.count, 0));
    switch (operand.shape) {
        case Shape::kOne:
            return count;
        case Shape::kRanks:
        case Shape::kRanksLocal:
            return count * static_cast<std::size_t>(ranks);
        case Shape::kRanksSum:
        case Shape::kRanksOwn:
            if (std::any_of(operand.counts, operand.counts + ranks, [](int c) { return c < 0; }))
                return 0;
            return std::accumulate(operand.counts, operand.counts + ranks, std::size_t{0});
        default:
            return 0;
    }
}

std::size_t blocks_bytes(const Operand& operand, int ranks) {
    return elements(operand, ranks) * datatype::size_of(operand.type);
}

int ranks_of(const Call& call) {
    int ranks = 0;
    if (call.owner.kind == Owner::Kind::kComm && call.owner.comm != MPI_COMM_NULL)
        real::Comm_size(call.owner.comm, &ranks);
    return ranks;
}

}  // namespace

Presence on_device(const Call& call) {
    Presence found = Presence::kNothing;
    for (const Operand& operand : call.operands) {
        const bool address = device::on_device(operand.address);
        const bool plain = begins_at_address(operand.shape) && datatype::predefined_size(operand.type) != 0;
        if (!address && (plain || operand.shape == Shape::kAddress))
            continue;
        if (carrier::staged::touches_device(call, operand))
            return Presence::kData;
        if (address)
            found = Presence::kAddress;
    }
    return found;
}

bool any_on_host(const Call& call, int rank) {
    return std::any_of(call.operands.begin(), call.operands.end(), [&](const Operand& operand) {
        const bool counts = operand.address != MPI_IN_PLACE &&
                            (operand.at == At::kAll || (operand.at == At::kRoot) == (rank == call.root));
        const bool nothing = operand.shape == Shape::kRanksOwn && operand.counts[rank] == 0;
        return counts && !nothing && !carrier::staged::touches_device(call, operand);
    });
}

std::size_t message_bytes(const Call& call) {
    // The last operand has what every rank must give alike: the receive count and type, or the only ones. (MPI_Reduce
    // gives both operands the same; MPI_Allgather's and MPI_Alltoall's send arguments are ignored with MPI_IN_PLACE.)
    Operand operand = call.operands.back();
    const bool has_counts = operand.counts != nullptr;
    if (!has_counts)
        operand.shape = Shape::kOne;
    return blocks_bytes(operand, has_counts ? ranks_of(call) : 1);
}

bool under_threshold(const Call& call) {
    const std::size_t message = message_bytes(call);
    if (message == 0 || message >= threshold)
        return message == 0;
    const bool many_blocks = std::any_of(call.operands.begin(), call.operands.end(), [](const Operand& o) {
        return o.shape == Shape::kRanks || o.shape == Shape::kRanksLocal;
    });
    return !many_blocks || message * static_cast<std::size_t>(ranks_of(call)) < threshold;
}

std::size_t payload_bytes(const Call& call) {
    const int ranks = ranks_of(call);
    std::size_t most = 0;
    for (const Operand& operand : call.operands)
        if (operand.address != MPI_IN_PLACE)
            most = std::max(most, blocks_bytes(operand, ranks));
    return most;
}

}  // namespace swy::route
