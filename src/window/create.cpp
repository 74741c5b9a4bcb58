// Windows over device memory, and what MPI tells of them.
#include <fmt/format.h>

#include <utility>

#include "error/error.hpp"
#include "window/state.hpp"
#include "window/window.hpp"

namespace swy::window {

int create(const Call& call, Real real) {
    const Operand& memory = call.operands.front();
    auto state = std::make_shared<State>();
    state->mirror = std::make_unique<Mirror>(memory.address, static_cast<std::size_t>(memory.count));
    if (const staging::Failure failure = state->mirror->prepare())
        return error::raise(call, failure.mpi_class, fmt::format("{}: {}", name(call.id), failure.text));
    const staging::Failure failure = state->mirror->fill();
    Operand use = memory;
    use.address = state->mirror->address();
    const int code = real(&use);  // after a failure too: others wait for it
    if (code != MPI_SUCCESS)
        return code;
    add(*call.win, std::move(state));
    return failure ? error::raise(call, failure.mpi_class, fmt::format("{}: {}", name(call.id), failure.text)) : code;
}

void show_attribute(MPI_Win win, int key, void* value) {
    static int model = MPI_WIN_SEPARATE;
    const std::shared_ptr<State> state = find(win);
    if (state == nullptr || state->mirror == nullptr)
        return;
    if (key == MPI_WIN_BASE)
        *static_cast<void**>(value) = state->mirror->base();
    else if (key == MPI_WIN_MODEL)
        *static_cast<int**>(value) = &model;
}

}  // namespace swy::window
