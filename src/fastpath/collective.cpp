#include "fastpath/collective.hpp"

#include <algorithm>
#include <climits>

#include "comm/state.hpp"

namespace swy::fastpath {
namespace {

constexpr std::uintptr_t kFree = 0, kBeingWritten = 1;

void remember(MPI_Datatype type, std::size_t size) {
    const auto handle = reinterpret_cast<std::uintptr_t>(type);
    SmallCount& place = small_counts[datatype::quick_slot(handle)];
    std::uintptr_t expected = kFree;
    if (call::merged_communicators.load() != 0 || place.type.load(std::memory_order_relaxed) != kFree ||
        !place.type.compare_exchange_strong(expected, kBeingWritten))
        return;
    // Where the job needs no agreement, size does not matter: no valid count is too large.
    place.below.store(call::job_agrees ? call::agreed_from / size + (call::agreed_from % size != 0) : SIZE_MAX,
                      std::memory_order_relaxed);
    place.type.store(handle);
    if (call::merged_communicators.load() != 0)  // since the first look
        place.type.store(kFree);
}

// Returns the number of blocks of an operand that has displacements in elements of one type; -1 for other operands.
int vector_blocks(const Operand& operand, const comm::State& comm) {
    switch (operand.shape) {
        case Shape::kRanksVector:
            return comm.size;
        case Shape::kSourcesVector:
            return comm.sources;
        case Shape::kTargetsVector:
            return comm.targets;
        default:
            return -1;
    }
}

// Tells whether MPI looks at the operand on a rank (MPI 4.0 section 6.2.3), in a call within one group.
bool is_significant(const Call& call, const Operand& operand, int rank) {
    if (operand.address == MPI_IN_PLACE)
        return false;
    return operand.at == At::kAll || (operand.at == At::kRoot) == (rank == call.root);
}

}  // namespace

bool known_host(const Call& call, const Operand& operand, const comm::State& comm) {
    if (comm.inter)
        return false;
    if (!is_significant(call, operand, comm.rank))  // its type and counts need not be valid
        return true;
    const std::size_t size = datatype::predefined_size(operand.type);
    if (!datatype::known_predefined(operand.type))
        return false;
    if (begins_at_address(operand.shape))
        return device::known_host(operand.address);
    const int blocks = operand.width == Width::kInt ? vector_blocks(operand, comm) : -1;
    const auto* counts = static_cast<const int*>(operand.count_array);
    const auto* displs = static_cast<const int*>(operand.displ_array);
    if (blocks < 0 || counts == nullptr || displs == nullptr)
        return false;
    int first = INT_MAX, last = INT_MIN;
    for (int b = 0; b < blocks; ++b) {
        if (counts[b] > 0) {
            first = std::min(first, displs[b]);
            last = std::max(last, displs[b]);
        }
    }
    const auto address = [&](int displacement) {
        return reinterpret_cast<std::uintptr_t>(operand.address) +
               static_cast<std::uintptr_t>(displacement * static_cast<MPI_Aint>(size));
    };
    return first > last || device::known_host_range(address(first), address(last));
}

bool left_out(const Call& call) {
    comm::State* comm = outside_mpi() ? comm::lately_used(call.owner.comm) : nullptr;
    if (comm == nullptr || driver_watch::known() != driver_watch::State::kOpen)
        return false;
    comm::AgreementInterval* const interval = comm->intervals.find(call.id);
    return interval != nullptr && interval->leaves_out() &&
           std::all_of(call.operands.begin(), call.operands.end(),
                       [&](const Operand& operand) { return known_host(call, operand, *comm); }) &&
           !interval->due();
}

constinit std::array<SmallCount, datatype::kQuickSizes> small_counts{};

bool small(MPI_Count count, MPI_Datatype type) {
    const std::size_t size = datatype::predefined_size(type);
    if (size != 0)
        remember(type, size);
    return small(count, size);
}

void forget_small_counts() {
    for (SmallCount& place : small_counts) {
        place.type.store(kFree);
        place.below.store(0);  // a null pointer is no type, and small_below() finds it here
    }
}

}  // namespace swy::fastpath
