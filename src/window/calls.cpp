// One-sided calls whose origin, compare or result buffers have data on a device.
#include <algorithm>
#include <utility>

#include "error/error.hpp"
#include "staging/staged.hpp"
#include "window/state.hpp"
#include "window/window.hpp"

namespace swy::window {
namespace {

bool has_result(const Call& call) {
    return std::any_of(call.operands.begin(), call.operands.end(),
                       [](const Operand& operand) { return operand.access != Access::kIn; });
}

}  // namespace

int stage(const Call& call, Real real) {
    Pending::Node one(1);
    one.front().target = call.root;
    one.front().staging = std::make_unique<staging::Staging>(call.id, call.owner, staging::Use::kMany);
    staging::Staging& staging = *one.front().staging;
    staging::Failure failure = staging.prepare(call);
    if (!failure)
        failure = staging.copy_in(staging::Staging::Back::kLater);
    if (failure)
        return error::raise(call, failure.mpi_class, failure.text());
    staging.rest();
    const std::shared_ptr<State> state = find_or_add(call.owner.win);
    const int code = real(staging.operands());
    if (code == MPI_SUCCESS)
        state->pending.add(std::move(one));
    return code;
}

// The operation keeps its memory itself. A synchronising call that completes it waits for the result alone: MPI may
// complete the request of a call without one later than that.
int begin(const Call& call, Real real, Reason reason, std::size_t bytes) {
    Pending::Node one(1);
    one.front().target = call.root;
    const std::shared_ptr<State> state = find_or_add(call.owner.win);
    const int code = staging::begin(call, real, 0, reason, bytes, &one.front().operation);
    if (code == MPI_SUCCESS && has_result(call))
        state->pending.add(std::move(one));
    return code;
}

}  // namespace swy::window
