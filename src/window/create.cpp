// Windows over device memory, and what MPI tells of them.
#include <utility>

#include "comm/where.hpp"
#include "error/error.hpp"
#include "window/state.hpp"
#include "window/window.hpp"

namespace swy::window {

int create(const Call& call, Real real) {
    const Operand& memory = call.operands.front();
    Operand use = memory;
    if (memory.count < 0)  // MPI_ERR_SIZE
        return real(&use);
    auto state = std::make_shared<State>();
    const auto mirror = std::make_shared<Mirror>(memory.address, static_cast<std::size_t>(memory.count));
    state->add(mirror);
    if (const staging::Failure failure = mirror->prepare())
        return error::raise(call, failure.mpi_class, comm::where(call.id, call.owner) + ": " + failure.why);
    const staging::Failure failure = Mirror::fill({&mirror, 1});
    use.address = mirror->address();
    const int code = real(&use);  // after a failure too: others wait for it
    if (code != MPI_SUCCESS)
        return code;
    add(*call.win, std::move(state));
    return failure ? error::raise(call, failure.mpi_class, comm::where(call.id, call.owner) + ": " + failure.why)
                   : code;
}

void* base(MPI_Win win) {
    const std::shared_ptr<State> state = find(win);
    if (state == nullptr || state->directory != nullptr)  // that of a dynamic window is MPI_BOTTOM
        return nullptr;
    const std::shared_ptr<const Mirrors> mirrors = state->mirrors();
    return mirrors->empty() ? nullptr : mirrors->front()->base();
}

bool is_separate(MPI_Win win) {
    const std::shared_ptr<State> state = find(win);
    return state != nullptr && state->has_mirrored();
}

}  // namespace swy::window
