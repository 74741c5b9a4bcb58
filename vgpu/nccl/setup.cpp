#include "vgpu/nccl/setup.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>

#include <unistd.h>

#include "vgpu/nccl/debug.hpp"
#include "vgpu/nccl/multiprocessors.hpp"
#include "vgpu/nccl/settings.hpp"

namespace vgpu::nccl {
namespace {

enum SetupPurpose : std::uint64_t { kRanks = 101, kSplit, kChild, kShrunk };

constexpr std::uint64_t kIdMagic = 0x76677075'6e63636cull;

// The contents of a unique id.
struct Id {
    std::uint64_t magic = kIdMagic;
    Service service;
    Name name{};
};
static_assert(sizeof(Id) <= NCCL_UNIQUE_ID_BYTES);

bool read_id(const ncclUniqueId& bytes, Id& id) {
    std::memcpy(static_cast<void*>(&id), &bytes, sizeof id);
    return id.magic == kIdMagic;
}

// Refuses two ranks on one GPU, as NCCL 2.28 does. Ranks that are not concerned get an error that others have gone.
ncclResult_t refuse_duplicates(const std::vector<Member>& members, int rank) {
    if (settings().multi_rank_gpu)
        return ncclSuccess;
    ncclResult_t result = ncclSuccess;
    for (const Member& a : members)
        for (const Member& b : members) {
            if (a.rank >= b.rank || a.host != b.host || a.bus_id != b.bus_id)
                continue;
            if (a.rank != rank && b.rank != rank) {
                result = result == ncclSuccess ? ncclRemoteError : result;
                continue;
            }
            const int other = a.rank == rank ? b.rank : a.rank;
            warn("Duplicate GPU detected : rank %d and rank %d both on CUDA device %lx", rank, other,
                 static_cast<unsigned long>(a.bus_id));
            return ncclInvalidUsage;
        }
    if (result != ncclSuccess)
        warn("Connection closed by remote peer: ranks of this communicator share a GPU");
    return result;
}

ncclResult_t check_versions(const std::vector<Member>& members) {
    for (const Member& member : members)
        if (member.version != members[0].version) {
            warn("Mismatched NCCL version detected : rank %d %d rank 0 %d", member.rank, member.version,
                 members[0].version);
            return ncclInvalidUsage;
        }
    return ncclSuccess;
}

std::vector<int> all_ranks(std::size_t count) {
    std::vector<int> ranks(count);
    std::iota(ranks.begin(), ranks.end(), 0);
    return ranks;
}

// Makes the child out of the parent's members `chosen`, given in the order of the child's ranks.
ncclResult_t make_child(Communicator& parent, const std::vector<int>& chosen, const Name& name, bool share,
                        Communicator& child) {
    std::vector<Member> members;
    std::vector<int> family_rank;
    int rank = 0;
    for (const int old : chosen) {
        if (old == parent.rank)
            rank = static_cast<int>(members.size());
        members.push_back(parent.members[static_cast<std::size_t>(old)]);
        members.back().rank = static_cast<std::int32_t>(members.size() - 1);
        family_rank.push_back(parent.family_rank[static_cast<std::size_t>(old)]);
    }
    std::shared_ptr<Family> family = parent.family;
    if (!share) {
        const ncclResult_t result =
            Family::connect(members, rank, name, child.device, channels_of(child), child.stop(), family);
        if (result != ncclSuccess)
            return result;
        family_rank = all_ranks(members.size());
    }
    child.set_members(name, std::move(members), rank, std::move(family_rank), std::move(family));
    return ncclSuccess;
}

}  // namespace

ncclResult_t make_unique_id(ncclUniqueId& bytes) {
    Id id;
    const ncclResult_t result = own_service(id.service);
    if (result != ncclSuccess)
        return result;
    id.name = random_name();
    std::memset(&bytes, 0, sizeof bytes);
    std::memcpy(static_cast<void*>(&bytes), &id, sizeof id);
    return ncclSuccess;
}

ncclResult_t establish(Communicator& communicator, const std::vector<ncclUniqueId>& ids) {
    Id first;
    Name name{};
    for (std::size_t i = ids.size(); i-- > 0;) {
        if (!read_id(ids[i], first)) {
            warn("the unique id was not made by ncclGetUniqueId of this library");
            return ncclInvalidArgument;
        }
        name = derive(first.name, name[0], name[1]);
    }
    Member mine;
    mine.host = host_hash();
    mine.bus_id = communicator.device.bus_id;
    mine.pid = getpid();
    mine.rank = communicator.rank;
    mine.version = settings().version;
    ncclResult_t result = own_service(mine.service);
    std::vector<Member> members;
    if (result == ncclSuccess)
        result = meet(first.service, derive(name, kRanks, 0), communicator.ranks, communicator.rank, mine,
                      communicator.stop(), members);
    if (result == ncclSuccess)
        result = check_versions(members);
    if (result == ncclSuccess)
        result = refuse_duplicates(members, communicator.rank);
    std::shared_ptr<Family> family;
    if (result == ncclSuccess)
        result = Family::connect(members, communicator.rank, name, communicator.device, channels_of(communicator),
                                 communicator.stop(), family);
    if (result != ncclSuccess)
        return result;
    const std::size_t count = members.size();
    communicator.set_members(name, std::move(members), communicator.rank, all_ranks(count), std::move(family));
    return ncclSuccess;
}

ncclResult_t split(Communicator& parent, std::uint64_t number, int color, int key, Communicator* child) {
    struct Wish {
        std::int32_t color = 0;
        std::int32_t key = 0;
    };
    const Wish mine{color, key};
    std::vector<Wish> wishes;
    const ncclResult_t result = meet(parent.members[0].service, derive(parent.name, kSplit, number), parent.ranks,
                                     parent.rank, mine, parent.stop(), wishes);
    if (result != ncclSuccess || child == nullptr)
        return result;
    std::vector<int> chosen;
    for (int rank = 0; rank < parent.ranks; ++rank)
        if (wishes[static_cast<std::size_t>(rank)].color == color)
            chosen.push_back(rank);
    std::stable_sort(chosen.begin(), chosen.end(), [&](int a, int b) {
        return wishes[static_cast<std::size_t>(a)].key < wishes[static_cast<std::size_t>(b)].key;
    });
    const Name name = derive(derive(parent.name, kChild, number), kChild, static_cast<std::uint64_t>(color));
    return make_child(parent, chosen, name, parent.config.split_share && !parent.revoked(), *child);
}

ncclResult_t shrink(Communicator& parent, std::uint64_t number, const std::vector<int>& excluded, bool share,
                    Communicator& child) {
    Name name = derive(parent.name, kShrunk, number);
    std::vector<int> chosen;
    for (int rank = 0; rank < parent.ranks; ++rank) {
        if (std::find(excluded.begin(), excluded.end(), rank) == excluded.end()) {
            chosen.push_back(rank);
            name = derive(name, kShrunk, static_cast<std::uint64_t>(rank));
        }
    }
    return make_child(parent, chosen, name, share, child);
}

}  // namespace vgpu::nccl
