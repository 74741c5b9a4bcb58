#include "ext/multi/tests.hpp"

#include <algorithm>
#include <new>

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

bool contiguous(const Call& call) {
    return std::all_of(call.operands.begin(), call.operands.end(), [](const Operand& operand) {
        return operand.address == MPI_IN_PLACE || datatype::layout_of(operand.type)->contiguous;
    });
}

}  // namespace

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
