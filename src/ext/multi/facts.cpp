#include "ext/multi/facts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <new>

#include "call/hash.hpp"
#include "datatype/element.hpp"
#include "settings/settings.hpp"
#include "staging/staged.hpp"

namespace swy::multi {

Survey survey_of(const Kept& kept) {
    Survey survey;
    for (int i = 0; i < kept.buffers(); ++i) {
        Kept::Operands operands;
        const Call described = kept.of_slot(i, kept.call().root, operands);
        for (Operand operand : described.operands) {
            const bool ignored = kept.call().plain == CallId::kReduce && operand.access == Access::kOut;
            if (ignored || operand.address == MPI_IN_PLACE || operand.address == nullptr)
                continue;
            // Looks only at the elements of one block of the operand, for where they are.
            operand.shape = Shape::kOne;
            operand.at = At::kAll;
            const Call one{.id = CallId::kAllreduce,
                           .owner = Owner(kept.call().comm),
                           .operands = std::span(&operand, 1),
                           .op = kept.call().op};
            survey.device |= staging::touches_device(one, operand);
            survey.host |= staging::touches_host_alone(one, operand);
        }
    }
    return survey;
}

namespace {

bool same(const coll::Fingerprint& a, const coll::Fingerprint& b) {
    return a.sequence == b.sequence && a.bytes == b.bytes && a.root == b.root && a.call == b.call && a.op == b.op &&
           a.element == b.element;
}

bool is_rooted(CallId id) {
    return id == CallId::kBcast || id == CallId::kReduce;
}

Reason obstacle_by_size(const Kept& kept, int slots) {
    if (slots == 1)
        return Reason::kOneRank;
    const bool one_block = kept.call().plain == CallId::kAllreduce || is_rooted(kept.call().plain);
    const std::size_t bytes = kept.block_bytes() * static_cast<std::size_t>(one_block ? 1 : slots);
    return bytes < settings::values().nccl_threshold ? Reason::kSmall : Reason::kNone;
}

bool contiguous(const Call& call) {
    return std::all_of(call.operands.begin(), call.operands.end(), [](const Operand& operand) {
        return operand.address == MPI_IN_PLACE || datatype::layout_of(operand.type)->contiguous;
    });
}

}  // namespace

coll::Fingerprint fingerprint(const Kept& kept, std::uint64_t number) {
    const ListCall& call = kept.call();
    coll::Fingerprint print;
    print.sequence = number;
    print.call = static_cast<std::uint16_t>(call.id);
    print.bytes = kept.block_bytes();
    print.root = call.root;
    print.op = static_cast<std::uint8_t>(datatype::operator_of(call.op));
    if (!kept.moves())
        print.element = static_cast<std::uint8_t>(datatype::element_of(call.out_type).element);
    return print;
}

std::uint64_t hash_of(const std::vector<int>& counts) {
    return call::fnv1a(counts) | 1;
}

Decision read(const std::vector<Fact>& facts, const Kept& kept) {
    Decision decision;
    std::vector<coll::Fingerprint> prints;
    bool any_host = false;
    int slots = 0;
    for (const Fact& fact : facts) {
        decision.counts.push_back(fact.slots);
        prints.push_back(fact.print);
        slots += fact.slots;
        decision.any_device |= fact.device;
        any_host |= fact.host;
        decision.in_flight |= fact.in_flight;
        decision.obstacle = std::max(decision.obstacle, static_cast<Reason>(fact.obstacle));
    }
    decision.attempts_ended = std::min_element(facts.begin(), facts.end(), [](const Fact& a, const Fact& b) {
                                  return a.attempts < b.attempts;
                              })->attempts;
    const std::uint64_t hash = hash_of(decision.counts);
    decision.all_ready = std::all_of(facts.begin(), facts.end(), [&](const Fact& fact) {
        return fact.ready_for == hash && fact.ready_on == facts.front().ready_on;
    });
    const auto differs = [&](const coll::Fingerprint& print) { return !same(print, prints.front()); };
    const int root = kept.call().root;
    if (std::any_of(prints.begin(), prints.end(), differs)) {
        decision.mpi_class = MPI_ERR_OTHER;
        decision.problem = coll::compare(prints);
    } else if (is_rooted(kept.call().plain) && slots > 0 && root >= slots) {
        decision.mpi_class = MPI_ERR_ROOT;
        decision.problem = fmt::format("root {} of {} places", root, slots);
    }
    if (decision.obstacle == Reason::kNone && decision.any_device)
        decision.obstacle = any_host ? Reason::kMixed : obstacle_by_size(kept, slots);
    return decision;
}

LocalTest::LocalTest(const Kept& kept, const SlotCounts& slots, int rank) {
    try {
        obstacle = prepare(kept, slots, rank);
    } catch (const std::bad_alloc&) {
        obstacle = Reason::kNoMemory;
    }
}

Reason LocalTest::prepare(const Kept& kept, const SlotCounts& slots, int rank) {
    for (int i = 0; i < kept.buffers(); ++i) {
        Kept::Operands operands;
        const int slot = slots.first(rank) + i;
        const Call call = kept.of_slot(i, slot, operands);
        if (kept.moves() && !contiguous(call))
            return Reason::kDerivedType;
        const Reason why = nccl::prepare(call, slot, slots.all(), works.emplace_back());
        if (why != Reason::kNone)
            return why;
    }
    std::vector<int> devices = ordinals();
    std::sort(devices.begin(), devices.end());
    const bool shared = std::adjacent_find(devices.begin(), devices.end()) != devices.end();
    return shared ? Reason::kDuplicateGpu : Reason::kNone;
}

std::vector<device::Location> LocalTest::locations() const {
    std::vector<device::Location> all;
    for (const nccl::Work& work : works)
        all.push_back(work.location);
    return all;
}

std::vector<int> LocalTest::ordinals() const {
    std::vector<int> all;
    for (const nccl::Work& work : works)
        all.push_back(work.location.ordinal);
    return all;
}

}  // namespace swy::multi
