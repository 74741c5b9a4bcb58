#include "coll/operands.hpp"

#include <algorithm>

#include "call/job.hpp"
#include "coll/tuning.hpp"
#include "comm/state.hpp"
#include "datatype/layout.hpp"
#include "datatype/quick.hpp"
#include "device/device.hpp"
#include "fastpath/collective.hpp"
#include "real.hpp"
#include "staging/staged.hpp"

namespace swy::coll {
namespace {

// 0 where a count is not valid.
std::size_t sum(Numbers<MPI_Count> counts, int ranks) {
    std::size_t total = 0;
    for (int r = 0; r < ranks; ++r) {
        if (counts[r] < 0)
            return 0;
        total += static_cast<std::size_t>(counts[r]);
    }
    return total;
}

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
        case Shape::kRanksVector:
            return sum(operand.counts(), ranks);
        default:
            return 0;
    }
}

int ranks_of(const Call& call) {
    int ranks = 0;
    if (call.owner.kind == Owner::Kind::kComm && call.owner.comm != MPI_COMM_NULL)
        real::Comm_size(call.owner.comm, &ranks);
    return ranks;
}

// The operand that has what every rank must give alike: the receive count and type, or the only ones. (MPI_Reduce gives
// both operands the same; MPI_Allgather's and MPI_Alltoall's send arguments are ignored with MPI_IN_PLACE.) Where
// blocks go to or come from a root, its count and type for one of them, and those of the only block elsewhere.
const Operand& sized_operand(const Call& call) {
    const auto by_root = std::find_if(call.operands.begin(), call.operands.end(), [](const Operand& operand) {
        return operand.at == At::kRoot && operand.shape == Shape::kRanks;
    });
    if (by_root == call.operands.end())
        return call.operands.back();
    int rank = 0;
    real::Comm_rank(call.owner.comm, &rank);
    if (rank == call.root)
        return *by_root;
    return by_root == call.operands.begin() ? call.operands.back() : call.operands.front();
}

}  // namespace

Presence on_device(const Call& call, const comm::State* comm) {
    Presence found = Presence::kNothing;
    for (const Operand& operand : call.operands) {
        const bool address = device::on_device(operand.address);
        const bool plain = begins_at_address(operand.shape) && datatype::predefined_size(operand.type) != 0;
        if (!address && (plain || operand.shape == Shape::kAddress ||
                         (comm != nullptr && fastpath::known_host(call, operand, *comm))))
            continue;
        if (staging::touches_device(call, operand))
            return Presence::kData;
        if (address)
            found = Presence::kAddress;
    }
    return found;
}

bool has_plain_data(const Call& call) {
    return std::any_of(call.operands.begin(), call.operands.end(), [](const Operand& operand) {
        const bool one = operand.shape == Shape::kOne || operand.shape == Shape::kRanks;
        return one && operand.at == At::kAll && operand.address != MPI_IN_PLACE && operand.count > 0 &&
               datatype::predefined_size(operand.type) != 0;
    });
}

bool any_on_host(const Call& call, Presence presence) {
    if (presence == Presence::kNothing && has_plain_data(call) && !between_groups(call))
        return true;
    return std::any_of(call.operands.begin(), call.operands.end(),
                       [&](const Operand& operand) { return staging::touches_host_alone(call, operand); });
}

bool between_groups(const Call& call) {
    int inter = 0;
    if (call.owner.kind == Owner::Kind::kComm && call.owner.comm != MPI_COMM_NULL)
        real::Comm_test_inter(call.owner.comm, &inter);
    return inter != 0;
}

bool size_is_unknown(const Call& call) {
    switch (blocking_form(call.id)) {
        case CallId::kGatherv:
        case CallId::kScatterv:
        case CallId::kAlltoallv:
        case CallId::kAlltoallw:
        case CallId::kNeighborAllgather:
        case CallId::kNeighborAllgatherv:
        case CallId::kNeighborAlltoall:
        case CallId::kNeighborAlltoallv:
        case CallId::kNeighborAlltoallw:
            return true;
        default:
            return between_groups(call);
    }
}

bool rooted(const Call& call) {
    return blocking_form(call.id) == CallId::kBcast ||
           std::any_of(call.operands.begin(), call.operands.end(), [](const Operand& o) { return o.at != At::kAll; });
}

std::size_t message_bytes(const Call& call) {
    if (size_is_unknown(call))
        return 0;
    Operand operand = sized_operand(call);
    const bool has_counts = operand.count_array != nullptr;
    if (!has_counts)
        operand.shape = Shape::kOne;
    return elements(operand, has_counts ? ranks_of(call) : 1) * datatype::size_of(operand.type);
}

bool under_threshold(const Call& call) {
    const std::size_t message = message_bytes(call);
    const std::size_t limit = threshold_of(call);
    if (message == 0 || message >= limit)
        return message == 0;
    const bool many_blocks = std::any_of(call.operands.begin(), call.operands.end(), [](const Operand& o) {
        return o.shape == Shape::kRanks || o.shape == Shape::kRanksLocal;
    });
    return !many_blocks || message * static_cast<std::size_t>(ranks_of(call)) < limit;
}

bool needs_no_agreement(const Call& call) {
    if (size_is_unknown(call))
        return false;
    return call::limited ? message_bytes(call) == 0 : under_threshold(call);
}

std::size_t payload_bytes(const Call& call) {
    std::size_t most = 0;
    for (const Operand& operand : call.operands)
        most = std::max(most, staging::bytes_of(call, operand));
    return most;
}

}  // namespace swy::coll
