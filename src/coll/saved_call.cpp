#include "coll/saved_call.hpp"

#include <cstring>
#include <type_traits>

#include "coll/operands.hpp"
#include "datatype/extension.hpp"
#include "datatype/quick.hpp"
#include "pack/group.hpp"
#include "pack/neighbours.hpp"
#include "real.hpp"
#include "staging/staged.hpp"

namespace swy::coll {

namespace {

// Returns the number of entries in an operand's arrays.
std::size_t entries(const Call& call, Shape shape) {
    switch (shape) {
        case Shape::kSourcesVector:
        case Shape::kSourcesBytes:
            return pack::neighbours_of(call.owner.comm).sources.size();
        case Shape::kTargetsVector:
        case Shape::kTargetsBytes:
            return pack::neighbours_of(call.owner.comm).targets.size();
        case Shape::kRanksSum:
        case Shape::kRanksOwn:
            return static_cast<std::size_t>(pack::group_of(call.owner.comm).own);
        case Shape::kRanksVector:
        case Shape::kRanksBytes:
            return static_cast<std::size_t>(pack::group_of(call.owner.comm).others);
        default:
            return 0;
    }
}

}  // namespace

SavedCall::SavedCall(const Call& call)
    : call_(call), keeps_count_(blocking_form(call.id) == CallId::kBcast && between_groups(call)) {
    const std::size_t count = call.operands.size();
    for (std::size_t i = 0; i < count; ++i) {
        operands_[i] = call.operands[i];
        // A reduction's count and type are those of both its buffers; a broadcast's type is valid where MPI looks at
        // it.
        const bool used = call.op != MPI_OP_NULL ||
                          (keeps_count_ ? call.root != MPI_PROC_NULL : staging::bytes_of(call, call.operands[i]) != 0);
        keep(operands_[i], arrays_[i], used, entries(call, operands_[i].shape));
    }
    call_.operands = {operands_.data(), count};
    call_.request = nullptr;
}

// Where MPI ignores an operand, its arguments may be anything, and are not copied. A broadcast
// between groups keeps its count: Open MPI does not number one of count 0 among the communicator's calls, and all ranks
// must number alike, those that have no part in it too.
void SavedCall::keep(Operand& operand, Arrays& arrays, bool used, std::size_t entries) {
    if (!used && !keeps_count_)
        operand.count = 0;
    if (!used)
        operand.type = MPI_BYTE;
    if (operand.types == nullptr)
        operand.type = keep(operand.type, used);
    const auto keep_array = [&](std::vector<std::byte>& copy, const void*& array, std::size_t bytes_each) {
        if (array == nullptr)
            return;
        copy.resize(entries * bytes_each);
        if (used)
            std::memcpy(copy.data(), array, copy.size());
        array = copy.data();
    };
    const MPI_Datatype* types = operand.types;
    keep_array(arrays.counts, operand.count_array, operand.counts().bytes_each());
    keep_array(arrays.displs, operand.displ_array, operand.displs().bytes_each());
    for (std::size_t r = 0; types != nullptr && r < entries; ++r)
        arrays.types.push_back(used ? keep(types[r], operand.counts()[r] != 0) : MPI_BYTE);
    if (types != nullptr)
        operand.types = arrays.types.data();
}

MPI_Datatype SavedCall::keep(MPI_Datatype type, bool used) {
    datatype::ElementOf extension;
    if (!used && datatype::predefined_size(type) == 0 && !datatype::find_extension(type, extension))
        return MPI_BYTE;
    return types_.emplace_back(type).get();
}

namespace {

// call_again() with the functions and types of one kind of form: those with int counts, or the large-count ones, which
// no program calls where MPI lacks them.
template <bool kLarge>
int call_form(const Call& call, const Operand* use, MPI_Comm comm, MPI_Request* request) {
    const Operand& a = use[0];
    const Operand& b = use[call.operands.size() - 1];
    const auto of = [](auto small, auto large) {
        if constexpr (kLarge)
            return large;
        else
            return small;
    };
    using Count = std::conditional_t<kLarge, MPI_Count, int>;
    using Displ = std::conditional_t<kLarge, MPI_Aint, int>;
    const auto sent = static_cast<Count>(a.count);
    const auto received = static_cast<Count>(b.count);
    const auto *a_counts = static_cast<const Count*>(a.count_array),
               *b_counts = static_cast<const Count*>(b.count_array);
    const auto *a_displs = static_cast<const Displ*>(a.displ_array),
               *b_displs = static_cast<const Displ*>(b.displ_array);
    const MPI_Op op = datatype::operator_for(call.op, b.type, true);
    switch (blocking_form(call.id)) {
        case CallId::kBcast:
            return of(real::Ibcast, real::Ibcast_c)(a.address, sent, a.type, call.root, comm, request);
        case CallId::kGather:
            return of(real::Igather, real::Igather_c)(a.address, sent, a.type, b.address, received, b.type, call.root,
                                                      comm, request);
        case CallId::kGatherv:
            return of(real::Igatherv, real::Igatherv_c)(a.address, sent, a.type, b.address, b_counts, b_displs, b.type,
                                                        call.root, comm, request);
        case CallId::kScatter:
            return of(real::Iscatter, real::Iscatter_c)(a.address, sent, a.type, b.address, received, b.type, call.root,
                                                        comm, request);
        case CallId::kScatterv:
            return of(real::Iscatterv, real::Iscatterv_c)(a.address, a_counts, a_displs, a.type, b.address, received,
                                                          b.type, call.root, comm, request);
        case CallId::kAllgather:
            return of(real::Iallgather, real::Iallgather_c)(a.address, sent, a.type, b.address, received, b.type, comm,
                                                            request);
        case CallId::kAllgatherv:
            return of(real::Iallgatherv, real::Iallgatherv_c)(a.address, sent, a.type, b.address, b_counts, b_displs,
                                                              b.type, comm, request);
        case CallId::kAlltoall:
            return of(real::Ialltoall, real::Ialltoall_c)(a.address, sent, a.type, b.address, received, b.type, comm,
                                                          request);
        case CallId::kAlltoallv:
            return of(real::Ialltoallv, real::Ialltoallv_c)(a.address, a_counts, a_displs, a.type, b.address, b_counts,
                                                            b_displs, b.type, comm, request);
        case CallId::kAlltoallw:
            return of(real::Ialltoallw, real::Ialltoallw_c)(a.address, a_counts, a_displs, a.types, b.address, b_counts,
                                                            b_displs, b.types, comm, request);
        case CallId::kReduce:
            return of(real::Ireduce, real::Ireduce_c)(a.address, b.address, sent, a.type, op, call.root, comm, request);
        case CallId::kAllreduce:
            return of(real::Iallreduce, real::Iallreduce_c)(a.address, b.address, received, b.type, op, comm, request);
        case CallId::kReduceScatter:
            return of(real::Ireduce_scatter, real::Ireduce_scatter_c)(a.address, b.address, b_counts, b.type, op, comm,
                                                                      request);
        case CallId::kReduceScatterBlock:
            return of(real::Ireduce_scatter_block, real::Ireduce_scatter_block_c)(a.address, b.address, received,
                                                                                  b.type, op, comm, request);
        case CallId::kScan:
            return of(real::Iscan, real::Iscan_c)(a.address, b.address, received, b.type, op, comm, request);
        case CallId::kExscan:
            return of(real::Iexscan, real::Iexscan_c)(a.address, b.address, received, b.type, op, comm, request);
        case CallId::kNeighborAllgather:
            return of(real::Ineighbor_allgather, real::Ineighbor_allgather_c)(a.address, sent, a.type, b.address,
                                                                              received, b.type, comm, request);
        case CallId::kNeighborAllgatherv:
            return of(real::Ineighbor_allgatherv, real::Ineighbor_allgatherv_c)(
                a.address, sent, a.type, b.address, b_counts, b_displs, b.type, comm, request);
        case CallId::kNeighborAlltoall:
            return of(real::Ineighbor_alltoall, real::Ineighbor_alltoall_c)(a.address, sent, a.type, b.address,
                                                                            received, b.type, comm, request);
        case CallId::kNeighborAlltoallv:
            return of(real::Ineighbor_alltoallv, real::Ineighbor_alltoallv_c)(
                a.address, a_counts, a_displs, a.type, b.address, b_counts, b_displs, b.type, comm, request);
        case CallId::kNeighborAlltoallw:
            return of(real::Ineighbor_alltoallw, real::Ineighbor_alltoallw_c)(
                a.address, a_counts, static_cast<const MPI_Aint*>(a.displ_array), a.types, b.address, b_counts,
                static_cast<const MPI_Aint*>(b.displ_array), b.types, comm, request);
        default:
            return MPI_ERR_INTERN;
    }
}

}  // namespace

int call_again(const Call& call, const Operand* use, MPI_Comm comm, MPI_Request* request) {
    return plain(call.id) == call.id ? call_form<false>(call, use, comm, request)
                                     : call_form<true>(call, use, comm, request);
}

}  // namespace swy::coll
