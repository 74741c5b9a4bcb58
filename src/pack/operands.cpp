#include "pack/operands.hpp"

#include <algorithm>

#include "pack/group.hpp"
#include "pack/neighbours.hpp"

namespace swy::pack {
namespace {

int count_of(const std::vector<int>& ranks) {
    return static_cast<int>(ranks.size());
}

using datatype::Layout;

// Tells whether the call is a collective whose receive buffer is written from end to end wherever it is significant:
// the amounts sent and received must be equal. (Not MPI_Exscan, which leaves rank 0's buffer unchanged, nor the
// neighbourhood collectives, which leave the blocks of MPI_PROC_NULL unchanged.)
bool writes_all(CallId id) {
    switch (id) {
        case CallId::kBcast:
        case CallId::kGather:
        case CallId::kGatherv:
        case CallId::kScatter:
        case CallId::kScatterv:
        case CallId::kAllgather:
        case CallId::kAllgatherv:
        case CallId::kAlltoall:
        case CallId::kAlltoallv:
        case CallId::kAlltoallw:
        case CallId::kReduce:
        case CallId::kAllreduce:
        case CallId::kReduceScatterBlock:
        case CallId::kReduceScatter:
        case CallId::kScan:
            return true;
        default:
            return false;
    }
}

// Tells whether, with MPI_IN_PLACE, a rank's own block of the receive buffer is all that is read.
bool reads_own_block_in_place(CallId id) {
    return id == CallId::kGather || id == CallId::kGatherv || id == CallId::kAllgather || id == CallId::kAllgatherv;
}

// False where the types that MPI gets decide what it makes of the bytes: another representation, the view of a file, an
// element's old value.
bool bytes_alone_matter(const Call& call) {
    const bool converts = call.id == CallId::kPackExternal || call.id == CallId::kUnpackExternal;
    return call.op == MPI_OP_NULL && !converts &&
           (call.owner.kind == Owner::Kind::kComm || call.owner.kind == Owner::Kind::kNone);
}

bool has_root(const Call& call) {
    return call.id == CallId::kBcast ||
           std::any_of(call.operands.begin(), call.operands.end(), [](const Operand& o) { return o.at != At::kAll; });
}

// Tells whether it is a message to or from MPI_PROC_NULL, or an operand of a one-sided call at which MPI does not look.
// MPI_Sendrecv's root is the destination; where its source is MPI_PROC_NULL the buffer is left unchanged.
bool nobody_there(const Call& call, const Operand& operand) {
    if (family(call.id) == Family::kOneSided)  // what MPI_NO_OP fetches needs no origin buffer (MPI 4.0 section 12.3.4)
        return call.root == MPI_PROC_NULL || (call.op == MPI_NO_OP && operand.access == Access::kIn);
    if (call.root != MPI_PROC_NULL)
        return false;
    switch (call.id) {
        case CallId::kSend:
        case CallId::kSsend:
        case CallId::kRsend:
        case CallId::kBsend:
        case CallId::kRecv:
            return true;
        case CallId::kSendrecv:
            return operand.access == Access::kIn;
        default:
            return false;
    }
}

enum class Role : std::uint8_t { kNone, kAll, kRoot, kNotRoot };

// This rank's role in a call with a root (MPI 4.0 section 6.2.3): on an intercommunicator, operands that are not the
// root's are passed only by the group without the root.
Role role_of(const Call& call, const Operand& operand, const Group& group) {
    if (!has_root(call))
        return Role::kAll;
    Role role = Role::kNotRoot;
    if (group.inter) {
        if (call.root == MPI_PROC_NULL)
            return Role::kNone;
        if (call.root == MPI_ROOT)
            return operand.at == At::kRoot || call.id == CallId::kBcast ? Role::kRoot : Role::kNone;
    } else if (call.root == group.rank) {
        role = Role::kRoot;
    }
    if (operand.at == At::kAll || (operand.at == At::kRoot) == (role == Role::kRoot))
        return role;
    return Role::kNone;
}

// Collects the segments of one operand, in the order in which their data would be packed.
class Builder {
  public:
    explicit Builder(Data& data, std::size_t packed = 0) : packed(packed), data_(data) {}

    // Adds elements of `type` at `offset` bytes plus `displacement` extents. Segments that follow one another become
    // one.
    void add(MPI_Datatype type, MPI_Count count, MPI_Aint offset, MPI_Aint displacement) {
        if (count <= 0 || type == MPI_DATATYPE_NULL)
            return;
        const Layout* layout = layout_of(type);
        if (layout->size == 0)
            return;
        offset += displacement * layout->extent;
        const auto elements = static_cast<std::size_t>(count);
        Segment* last = all.empty() ? nullptr : &all.back();
        if (last != nullptr && last->layout == layout &&
            last->offset + static_cast<MPI_Aint>(last->count) * layout->extent == offset)
            last->count += elements;
        else
            all.push_back({layout, offset, elements, packed});
        packed += elements * layout->size;
    }

    // Adds block r of an operand whose blocks have counts of their own.
    void add_block(const Operand& operand, int r) {
        const MPI_Aint at = operand.displs() ? operand.displs()[r] : 0;
        if (operand.types != nullptr)
            add(operand.types[r], operand.counts()[r], at, 0);
        else
            add(operand.type, operand.counts()[r], 0, at);
    }

    void add_blocks(const Operand& operand, int blocks) {
        for (int r = 0; operand.counts() && r < blocks; ++r) {
            data_.blocks.push_back(packed);
            add_block(operand, r);
        }
    }

    std::vector<Segment> all;
    std::size_t packed;

  private:
    const Layout* layout_of(MPI_Datatype type) {
        if (type == type_)
            return layout_;
        data_.layouts.push_back(datatype::layout_of(type));
        type_ = type;
        return layout_ = data_.layouts.back().get();
    }

    Data& data_;
    MPI_Datatype type_ = MPI_DATATYPE_NULL;
    const Layout* layout_ = nullptr;
};

MPI_Count sum(Numbers<MPI_Count> counts, int ranks) {
    MPI_Count total = 0;
    for (int r = 0; counts && r < ranks; ++r)
        total += std::max(counts[r], MPI_Count{0});
    return total;
}

// Adds all of the operand.
void add_all(Builder& builder, const Call& call, const Operand& operand, const Group& group) {
    const MPI_Comm comm = call.owner.kind == Owner::Kind::kComm ? call.owner.comm : MPI_COMM_NULL;
    switch (operand.shape) {
        case Shape::kOne:
        case Shape::kAddress:
            return builder.add(operand.type, operand.count, 0, 0);
        case Shape::kRanks:
            return builder.add(operand.type, operand.count * group.others, 0, 0);
        case Shape::kRanksLocal:
            return builder.add(operand.type, operand.count * group.own, 0, 0);
        case Shape::kRanksSum:
            return builder.add(operand.type, sum(operand.counts(), group.own), 0, 0);
        case Shape::kRanksOwn:
            return builder.add(operand.type, operand.counts() ? operand.counts()[group.rank] : 0, 0, 0);
        case Shape::kRanksVector:
        case Shape::kRanksBytes:
            return builder.add_blocks(operand, group.others);
        case Shape::kSources:
            return builder.add(operand.type, operand.count * count_of(neighbours_of(comm).sources), 0, 0);
        case Shape::kTargets:
            return builder.add(operand.type, operand.count * count_of(neighbours_of(comm).targets), 0, 0);
        case Shape::kSourcesVector:
        case Shape::kSourcesBytes:
            return builder.add_blocks(operand, count_of(neighbours_of(comm).sources));
        case Shape::kTargetsVector:
        case Shape::kTargetsBytes:
            return builder.add_blocks(operand, count_of(neighbours_of(comm).targets));
    }
}

// Returns this rank's own block of a gathering call's receive buffer.
std::vector<Segment> own_block(Data& data, const Operand& operand, int rank) {
    if (operand.shape == Shape::kRanksVector) {
        Builder own(data, data.blocks.at(static_cast<std::size_t>(rank)));
        own.add_block(operand, rank);
        return std::move(own.all);
    }
    const MPI_Count before = operand.count * rank;
    Builder own(data, static_cast<std::size_t>(before) * datatype::size_of(operand.type));
    own.add(operand.type, operand.count, 0, before);
    return std::move(own.all);
}

bool needs_group(const Call& call, const Operand& operand) {
    return operand.shape != Shape::kOne || has_root(call);
}

}  // namespace

Data data_of(const Call& given, const Operand& operand) {
    Call call = given;
    call.id = blocking_form(given.id);  // the non-blocking and large-count forms reads and writes the same
    Data data;
    if (operand.address == MPI_IN_PLACE || operand.shape == Shape::kAddress || nobody_there(call, operand))
        return data;
    const bool collective = call.owner.kind == Owner::Kind::kComm && needs_group(call, operand);
    const Group group = collective ? group_of(call.owner.comm) : Group{};
    const Role role = collective ? role_of(call, operand, group) : Role::kAll;
    if (role == Role::kNone)
        return data;

    bool reads = operand.access != Access::kOut, writes = operand.access != Access::kIn;
    if (call.id == CallId::kBcast) {
        reads = role == Role::kRoot;
        writes = !reads;
    }
    Builder all(data);
    add_all(all, call, operand, group);
    if (all.all.empty())
        return data;
    if (writes && reads && reads_own_block_in_place(call.id)) {
        data.reads = own_block(data, operand, group.rank);
    } else if (reads || !writes_all(call.id)) {
        data.reads = all.all;
    }
    if (writes && (operand.shape == Shape::kRanksSum || operand.shape == Shape::kRanksLocal)) {
        // MPI_Reduce_scatter(_block) in place reads all blocks and puts the result where the buffer begins (MPI 4.0
        // section 6.10).
        Builder own(data);
        own.add(operand.type, operand.shape == Shape::kRanksLocal ? operand.count : operand.counts()[group.rank], 0, 0);
        data.writes = std::move(own.all);
    } else if (writes) {
        data.writes = std::move(all.all);
    }
    data.substitutable = bytes_alone_matter(call);
    data.kept = !writes_all(call.id);
    return data;
}

}  // namespace swy::pack
