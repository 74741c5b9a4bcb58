#include "coll/saved_call.hpp"

#include "datatype/extension.hpp"
#include "datatype/quick.hpp"
#include "pack/neighbours.hpp"
#include "real.hpp"
#include "staging/staged.hpp"

namespace swy::coll {

namespace {

// Returns the number of entries in an operand's arrays.
std::size_t entries(const Call& call, Shape shape, int ranks) {
    switch (shape) {
        case Shape::kSourcesVector:
        case Shape::kSourcesBytes:
            return pack::neighbours_of(call.owner.comm).sources.size();
        case Shape::kTargetsVector:
        case Shape::kTargetsBytes:
            return pack::neighbours_of(call.owner.comm).targets.size();
        default:
            return static_cast<std::size_t>(ranks);
    }
}

}  // namespace

SavedCall::SavedCall(const Call& call, int ranks) : call_(call) {
    const std::size_t count = call.operands.size();
    for (std::size_t i = 0; i < count; ++i) {
        operands_[i] = call.operands[i];
        // A reduction's count and type are those of both its buffers.
        const bool used = call.op != MPI_OP_NULL || staging::bytes_of(call, call.operands[i]) != 0;
        keep(operands_[i], arrays_[i], used, entries(call, operands_[i].shape, ranks));
    }
    call_.operands = {operands_.data(), count};
    call_.request = nullptr;
}

// Where MPI ignores an operand, its arguments may be anything, and are not copied.
void SavedCall::keep(Operand& operand, Arrays& arrays, bool used, std::size_t entries) {
    if (!used) {
        operand.count = 0;
        operand.type = MPI_BYTE;
    }
    if (operand.types == nullptr)
        operand.type = keep(operand.type, used);
    const auto copied = [&](auto& copy, auto& array) {
        if (array == nullptr)
            return;
        copy.assign(entries, {});
        if (used)
            copy.assign(array, array + entries);
        array = copy.data();
    };
    const MPI_Datatype* types = operand.types;
    copied(arrays.counts, operand.counts);
    copied(arrays.displs, operand.displs);
    copied(arrays.offsets, operand.offsets);
    for (std::size_t r = 0; types != nullptr && r < entries; ++r)
        arrays.types.push_back(used ? keep(types[r], arrays.counts[r] != 0) : MPI_BYTE);
    if (types != nullptr)
        operand.types = arrays.types.data();
}

MPI_Datatype SavedCall::keep(MPI_Datatype type, bool used) {
    datatype::ElementOf extension;
    if (!used && datatype::predefined_size(type) == 0 && !datatype::find_extension(type, extension))
        return MPI_BYTE;
    return types_.emplace_back(type).get();
}

int call_again(const Call& call, const Operand* use, MPI_Comm comm, MPI_Request* request) {
    const Operand& a = use[0];
    const Operand& b = use[call.operands.size() - 1];
    const auto sent = static_cast<int>(a.count);
    const auto received = static_cast<int>(b.count);
    const MPI_Op op = datatype::operator_for(call.op, b.type, true);
    switch (blocking_form(call.id)) {
        case CallId::kBcast:
            return real::Ibcast(a.address, sent, a.type, call.root, comm, request);
        case CallId::kGather:
            return real::Igather(a.address, sent, a.type, b.address, received, b.type, call.root, comm, request);
        case CallId::kGatherv:
            return real::Igatherv(a.address, sent, a.type, b.address, b.counts, b.displs, b.type, call.root, comm,
                                  request);
        case CallId::kScatter:
            return real::Iscatter(a.address, sent, a.type, b.address, received, b.type, call.root, comm, request);
        case CallId::kScatterv:
            return real::Iscatterv(a.address, a.counts, a.displs, a.type, b.address, received, b.type, call.root, comm,
                                   request);
        case CallId::kAllgather:
            return real::Iallgather(a.address, sent, a.type, b.address, received, b.type, comm, request);
        case CallId::kAllgatherv:
            return real::Iallgatherv(a.address, sent, a.type, b.address, b.counts, b.displs, b.type, comm, request);
        case CallId::kAlltoall:
            return real::Ialltoall(a.address, sent, a.type, b.address, received, b.type, comm, request);
        case CallId::kAlltoallv:
            return real::Ialltoallv(a.address, a.counts, a.displs, a.type, b.address, b.counts, b.displs, b.type, comm,
                                    request);
        case CallId::kAlltoallw:
            return real::Ialltoallw(a.address, a.counts, a.displs, a.types, b.address, b.counts, b.displs, b.types,
                                    comm, request);
        case CallId::kReduce:
            return real::Ireduce(a.address, b.address, sent, a.type, op, call.root, comm, request);
        case CallId::kAllreduce:
            return real::Iallreduce(a.address, b.address, received, b.type, op, comm, request);
        case CallId::kReduceScatter:
            return real::Ireduce_scatter(a.address, b.address, b.counts, b.type, op, comm, request);
        case CallId::kReduceScatterBlock:
            return real::Ireduce_scatter_block(a.address, b.address, received, b.type, op, comm, request);
        case CallId::kScan:
            return real::Iscan(a.address, b.address, received, b.type, op, comm, request);
        case CallId::kExscan:
            return real::Iexscan(a.address, b.address, received, b.type, op, comm, request);
        default:
            return MPI_ERR_INTERN;
    }
}

}  // namespace swy::coll
