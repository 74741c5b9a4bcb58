#include "comm/setup_facts.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include "call/hash.hpp"
#include "nccl/library.hpp"
#include "nccl/member.hpp"

namespace swy::comm {
namespace {

bool two_on_one_gpu(std::vector<Fact> facts) {
    auto slot = [](const Fact& f) { return std::pair(f.member.host, f.member.gpu); };
    std::sort(facts.begin(), facts.end(), [&](const Fact& a, const Fact& b) { return slot(a) < slot(b); });
    return std::adjacent_find(facts.begin(), facts.end(),
                              [&](const Fact& a, const Fact& b) { return slot(a) == slot(b); }) != facts.end();
}

}  // namespace

Fact own_fact(const device::Location& location, bool broken) {
    Fact fact;
    fact.member = nccl::member_here(location.ordinal);
    fact.nccl_version = nccl::load() != nullptr ? nccl::version() : 0;
    fact.old_library = nccl::too_old();
    fact.ranks_share_gpus = nccl::shares_gpus();
    fact.several_ids = nccl::Communicator::takes_several_ids();
    fact.gpu_model = call::fnv1a(device::device_name(location.ordinal));
    fact.broken = broken;
    return fact;
}

Reason obstacle_in(const std::vector<Fact>& facts) {
    const auto all = [&](auto test) { return std::all_of(facts.begin(), facts.end(), test); };
    if (!all([](const Fact& f) { return !f.old_library; }))
        return Reason::kOldNccl;
    if (!all([](const Fact& f) { return f.nccl_version != 0; }))
        return Reason::kNoNccl;
    if (!all([](const Fact& f) { return f.ranks_share_gpus != 0; }) && two_on_one_gpu(facts))
        return Reason::kDuplicateGpu;
    return Reason::kNone;
}

bool is_first_without_nccl(const std::vector<Fact>& facts, int member) {
    const auto here = facts.begin() + member;
    return std::none_of(facts.begin(), here,
                        [&](const Fact& f) { return f.member.host == here->member.host && f.nccl_version == 0; });
}

Machine machine_in(const std::vector<Fact>& facts) {
    const auto alike = [&](auto field) {
        const bool all =
            std::all_of(facts.begin(), facts.end(), [&](const Fact& f) { return f.*field == facts.front().*field; });
        return all ? facts.front().*field : 0;
    };
    std::set<std::uint64_t> hosts;
    for (const Fact& fact : facts)
        hosts.insert(fact.member.host);
    return {static_cast<int>(hosts.size()), alike(&Fact::nccl_version), alike(&Fact::gpu_model)};
}

nccl::Group group_of(const std::vector<Fact>& facts) {
    nccl::Group group(facts.size());
    std::transform(facts.begin(), facts.end(), group.begin(), [](const Fact& f) { return f.member; });
    return group;
}

}  // namespace swy::comm
