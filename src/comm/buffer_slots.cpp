#include "comm/buffer_slots.hpp"

#include <algorithm>
#include <utility>

#include "call/private_comm.hpp"
#include "progress/engine.hpp"
#include "progress/wait.hpp"
#include "real.hpp"

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

int BufferSlots::make_order(State& state) {
    MPI_Comm private_comm = MPI_COMM_NULL;
    const int rc = call::make_private_comm(state.handle, &private_comm);
    if (rc == MPI_SUCCESS)
        order_ = LaunchOrder::adopt(state, private_comm);
    return rc;
}

void BufferSlots::leave(const void* call) {
    queue_.erase(std::remove(queue_.begin(), queue_.end(), call), queue_.end());
}

void BufferSlots::await() {
    const auto through = [this] {
        const progress::Hold hold;
        return exchanges == 0 && begun == ended && queue_.empty();
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
