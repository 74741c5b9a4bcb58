#include "comm/buffer_slots.hpp"

#include <utility>

#include "progress/engine.hpp"
#include "progress/wait.hpp"

namespace swy::comm {

std::shared_ptr<BufferSlots> BufferSlots::of(State& state) {
    if (state.slots == nullptr)
        state.slots = std::shared_ptr<BufferSlots>(new BufferSlots);
    return state.slots;
}

BufferSlots::~BufferSlots() {
    retire();
}

void BufferSlots::retire() {
    nccl::Communicator::retire(std::move(nccl));
    nccl = nullptr;
}

void BufferSlots::await() {
    const auto through = [this] {
        const progress::Hold hold;
        return exchanges == 0 && begun == ended && calls == 0;
    };
    while (!through())
        progress::progress();
}

bool BufferSlots::needs_setup(const std::vector<int>& devices) const {
    return !tried_ || devices != devices_ || (obstacle == Reason::kNone && (nccl == nullptr || nccl_failed()));
}

void BufferSlots::end_setup(const std::vector<int>& devices, Setup::Result& result) {
    ++ended;
    if (!result.changed)
        return;
    nccl::Communicator::retire(std::exchange(nccl, std::move(result.nccl)));
    tried_ = true;
    devices_ = devices;
    obstacle = result.why;
}

}  // namespace swy::comm
