#include "comm/launch_order.hpp"

#include <algorithm>
#include <array>
#include <atomic>

#include "call/hash.hpp"
#include "call/private_comm.hpp"
#include "error/loss.hpp"
#include "nccl/member.hpp"
#include "progress/engine.hpp"
#include "progress/wait.hpp"
#include "real.hpp"

namespace swy::comm {
namespace {

std::atomic<std::int64_t> last_number{0};  // that agree_on_number() has drawn or learnt of

void free_if_made(MPI_Comm comm) {
    if (comm != MPI_COMM_NULL)
        real::Comm_free(&comm);
}

}  // namespace

int agree_on_number(State& state, bool& all) {
    const auto host = static_cast<std::int64_t>(nccl::host_here());
    const std::int64_t number = state.number != 0 ? state.number : ++last_number;
    const std::array<std::int64_t, 4> mine{all ? 1 : 0, -number, host, ~host};
    std::array<std::int64_t, 4> least{};
    const int rc = real::Allreduce(mine.data(), least.data(), mine.size(), MPI_INT64_T, MPI_MIN, state.handle);
    all = least[0] != 0;
    state.number = -least[1];
    state.one_host = least[2] == ~least[3];
    last_number = std::max(last_number.load(), state.number);
    return rc;
}

std::int64_t number_of(State& state) {
    if (state.inter)
        return state.merged != MPI_COMM_NULL ? of(state.merged)->number : 0;
    if (state.size == 1 && state.number == 0)
        state.number = ++last_number;
    return state.number;
}

OperationId id_of(std::int64_t number, const Launch& launch) {
    return call::kGoldenRatio * (static_cast<std::uint64_t>(number) << 32U | launch.number) + launch.start;
}

int LaunchOrder::make(State& state) {
    // A rank without a private communicator would not agree where the others do, so all have one or none has.
    MPI_Comm private_comm = MPI_COMM_NULL, between = MPI_COMM_NULL;
    bool all = call::make_private_comm_with_topology(state.handle, &private_comm) == MPI_SUCCESS;
    if (all && state.between != MPI_COMM_NULL)
        all = call::make_private_intercomm(state.between, private_comm, &between) == MPI_SUCCESS;
    const int rc = agree_on_number(state, all);
    if (rc == MPI_SUCCESS && all) {
        state.order = std::make_shared<LaunchOrder>(std::make_unique<MessageTokens>(state, private_comm), state.number);
        state.order->private_comm_ = private_comm;
        state.order->between_ = between;
        state.order->owner_ = &state;
    } else {
        free_if_made(private_comm);
        free_if_made(between);
    }
    return rc;
}

LaunchOrder::~LaunchOrder() {
    int down = 0;
    real::Finalized(&down);
    tokens_.reset();
    if (down)
        return;
    free_if_made(private_comm_);
    free_if_made(between_);
}

void LaunchOrder::revoke() const {
    error::revoke(private_comm_);
    if (between_ != MPI_COMM_NULL)
        error::revoke(between_);
}

void LaunchOrder::leave(const void* operation) {
    queue_.erase(std::remove(queue_.begin(), queue_.end(), operation), queue_.end());
}

bool LaunchOrder::arrived(const Launch& launch) {
    if (tokens_->before() == MPI_PROC_NULL)
        return true;
    receive_token();
    return has_token_ && token_ == launch;
}

void LaunchOrder::receive_token() {
    while (!has_token_ && tokens_->receive(token_)) {
        const auto nobodys = std::find(given_up_.begin(), given_up_.end(), token_);
        has_token_ = nobodys == given_up_.end();
        if (!has_token_)
            given_up_.erase(nobodys);
    }
}

void LaunchOrder::pass_token(const Launch& launch) {
    has_token_ = false;
    tokens_->send(launch);
}

void LaunchOrder::give_up(const Launch& launch) {
    if (tokens_->before() == MPI_PROC_NULL)
        return;
    if (has_token_ && token_ == launch)
        has_token_ = false;
    else
        given_up_.push_back(launch);
}

void LaunchOrder::await_agreements() const {
    const auto none = [this] {
        const progress::Hold hold;
        return agreements == 0;
    };
    while (!none())
        progress::progress();
}

Gpus& Gpus::of_process() {
    static constinit Gpus gpus;
    return gpus;
}

bool GpuClaim::begin(const nccl::Communicator* communicator) {
    if (has_)
        return true;
    const bool others = gpus_.operations_ != 0 && gpus_.with_ != communicator;
    if (others || (gpus_.operations_ != 0 && gpus_.waiting_ != 0)) {
        if (others && !waits_) {
            waits_ = true;
            ++gpus_.waiting_;
        }
        return false;
    }
    if (waits_)
        --gpus_.waiting_;
    waits_ = false;
    has_ = true;
    gpus_.with_ = communicator;
    ++gpus_.operations_;
    return true;
}

void GpuClaim::end() {
    if (waits_)
        --gpus_.waiting_;
    if (has_)
        --gpus_.operations_;
    has_ = waits_ = false;
}

}  // namespace swy::comm
