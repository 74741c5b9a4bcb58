#include "comm/places.hpp"

#include <algorithm>
#include <utility>

#include "real.hpp"
#include "request/engine.hpp"
#include "request/wait.hpp"

namespace swy::comm {

namespace nccl = carrier::nccl;

std::shared_ptr<Places> Places::of(State& state) {
    if (state.places == nullptr)
        state.places = std::shared_ptr<Places>(new Places);
    return state.places;
}

Places::~Places() {
    retire();
}

void Places::retire() {
    nccl::LocalMembers::retire(std::move(nccl));
    nccl = nullptr;
}

int Places::make_order(State& state) {
    MPI_Comm shadow = MPI_COMM_NULL;
    const int rc = Order::make_shadow(state, &shadow);
    if (rc == MPI_SUCCESS)
        order_ = Order::adopt(state, shadow);
    return rc;
}

void Places::leave(const void* call) {
    queue_.erase(std::remove(queue_.begin(), queue_.end(), call), queue_.end());
}

void Places::await() {
    const auto through = [this] {
        const request::Hold hold;
        return exchanges == 0 && begun == ended && queue_.empty();
    };
    while (!through())
        request::progress();
}

bool Places::needs_setup(const std::vector<int>& devices) const {
    return !tried_ || devices != devices_ || (obstacle == Reason::kNone && (nccl == nullptr || !nccl->usable()));
}

void Places::begin_anew(std::vector<int> devices, Reason why) {
    nccl::LocalMembers::retire(std::move(nccl));
    nccl = nullptr;
    tried_ = true;
    devices_ = std::move(devices);
    obstacle = why;
}

}  // namespace swy::comm
