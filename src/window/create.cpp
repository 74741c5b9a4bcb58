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
    add(*call.made->win, std::move(state));
    return failure ? error::raise(call, failure.mpi_class, comm::where(call.id, call.owner) + ": " + failure.why)
                   : code;
}

bool create_direct(const Call& call, int& code) {
    std::shared_ptr<Direct> direct = Direct::make(call, code);
    if (direct == nullptr)
        return code != MPI_SUCCESS;
    auto state = std::make_shared<State>();
    state->direct = std::move(direct);
    add(*call.made->win, std::move(state));
    return true;
}

bool is_direct(MPI_Win win) {
    const std::shared_ptr<State> state = none_special() ? nullptr : find(win);
    return state != nullptr && state->direct != nullptr;
}

int perform(const Call& call) {
    return find(call.owner.win)->direct->perform(call);
}

int refuse_shared_query(MPI_Win win) {
    return error::raise(Owner(win), MPI_ERR_RMA_FLAVOR,
                        comm::where(CallId::kWinSharedQuery, Owner(win)) +
                            ": the window was made by MPI_Win_create: only windows of MPI_Win_allocate_shared can be "
                            "asked for other ranks' memory");
}

bool attribute(MPI_Win win, int keyval, void*& value) {
    static int separate = MPI_WIN_SEPARATE;
    const std::shared_ptr<State> state = find(win);
    if (state != nullptr && state->direct != nullptr)
        return state->direct->attribute(keyval, value);
    if (state == nullptr || !state->has_mirrored())
        return false;
    if (keyval == MPI_WIN_MODEL)
        value = &separate;
    else if (keyval == MPI_WIN_BASE && state->directory == nullptr)  // that of a dynamic window is MPI_BOTTOM
        value = state->mirrors()->front()->base();
    return keyval == MPI_WIN_MODEL || (keyval == MPI_WIN_BASE && state->directory == nullptr);
}

}  // namespace swy::window
