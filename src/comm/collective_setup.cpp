#include "comm/collective_setup.hpp"

#include <memory>
#include <utility>
#include <vector>

#include "comm/exchange.hpp"
#include "comm/launch_order.hpp"
#include "comm/setup.hpp"
#include "nccl/communicator.hpp"
#include "progress/engine.hpp"

namespace swy::comm {
namespace {

// Under the lock.
void begin(State& state, const device::Location& location) {
    const auto ranks = static_cast<std::size_t>(state.size);
    state.setup =
        std::make_shared<Setup>(state, Setup::Plan{.devices = {location},
                                                   .numbers = std::vector<int>(ranks, 1),
                                                   .tags = std::vector<int>(ranks, Exchange::tag_of(state.number)),
                                                   .before = state.nccl});
    ++state.setups_begun;
    progress::add(state.setup);
}

}  // namespace

void begin_setup(State& state, const device::Location& location, std::uint64_t ended) {
    if (state.setups_begun == ended)
        begin(state, location);
}

int set_up(State& state, const device::Location& location, std::uint64_t ended) {
    bool all = true;
    if (state.number == 0)
        if (const int rc = agree_on_number(state, all); rc != MPI_SUCCESS)
            return rc;
    {
        const progress::Hold hold;
        if (state.setups_begun == ended)
            begin(state, location);
    }
    await_setup(state);
    adopt_setup(state);
    return MPI_SUCCESS;
}

void await_setup(const State& state) {
    const auto setup = [&] {
        const progress::Hold hold;
        return state.setup;
    }();
    if (setup != nullptr)
        progress::wait_for(*setup);
}

void adopt_setup(State& state) {
    if (state.setups_begun == state.setups_ended)
        return;
    const progress::Hold hold;
    if (state.setup == nullptr || !state.setup->done())
        return;
    const auto setup = std::exchange(state.setup, nullptr);
    ++state.setups_ended;
    Setup::Result& result = setup->result();
    if (!result.changed)
        return;
    nccl::Communicator::retire(std::exchange(state.nccl, std::move(result.nccl)));
    state.obstacle = result.why;
    state.ordinal = setup->devices().front().ordinal;
    state.setup_given_up = result.given_up;
    state.machine = result.machine;
    if (state.size == tuned_for.ranks)
        state.tuning = fits(state.machine, device::device_name(state.ordinal));
}

}  // namespace swy::comm
