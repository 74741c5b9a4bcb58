// Dynamic windows with attached device memory. In them displacements are addresses, which ranks tell each other: those
// of device memory remain the program's, and each origin translates them (translation.cpp).
#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <utility>

#include "call/depth.hpp"
#include "comm/state.hpp"
#include "comm/where.hpp"
#include "device/device.hpp"
#include "error/error.hpp"
#include "real.hpp"
#include "settings/settings.hpp"
#include "window/state.hpp"
#include "window/window.hpp"

namespace swy::window {
namespace {

// All ranks find the same: whether others of the communicator open a directory too.
bool may_have_directory(MPI_Comm comm) {
    const comm::State* const state = comm::of(comm);
    return state != nullptr && !state->spans_jobs;
}

bool is_dynamic(MPI_Win win, int& code) {
    int *flavor = nullptr, found = 0;
    code = real::Win_get_attr(win, MPI_WIN_CREATE_FLAVOR, static_cast<void*>(&flavor), &found);
    return code == MPI_SUCCESS && found != 0 && *flavor == MPI_WIN_FLAVOR_DYNAMIC;
}

// For a window that has no directory. One that is not dynamic takes no memory at all, which MPI itself says.
int attach_nothing(const Call& call, Real real) {
    int code = MPI_SUCCESS;
    if (is_dynamic(call.owner.win, code))
        return error::raise(call, MPI_ERR_RMA_ATTACH,
                            fmt::format("{}: device memory can be attached to a window of ranks of one job with GPUs "
                                        "alone, and the communicator of this one has ranks of several, or the job had "
                                        "no GPU driver at its start: attach host memory",
                                        comm::where(call.id, call.owner)));
    Operand use = call.operands.front();
    use.address = nullptr;
    return code != MPI_SUCCESS ? code : real(&use);
}

bool overlap(const Mirror& mirror, const Operand& memory) {
    const auto* const begin = static_cast<const std::byte*>(memory.address);
    const auto* const other = static_cast<const std::byte*>(mirror.base());
    return begin < other + mirror.bytes() && other < begin + memory.count;
}

std::uint64_t number(const void* address) {
    return reinterpret_cast<std::uintptr_t>(address);
}

}  // namespace

int create_dynamic(MPI_Info info, MPI_Comm comm, MPI_Win* win) {
    const call::Inside guard;
    try {
        auto state = std::make_shared<State>();
        state->directory = std::make_unique<Directory>();
        const int code = real::Win_create_dynamic(info, comm, win);
        if (code != MPI_SUCCESS || !may_have_directory(comm))
            return code;
        if (const int opened = state->directory->open(comm); opened != MPI_SUCCESS)
            return error::raise(Owner(comm), opened,
                                comm::where(CallId::kWinCreateDynamic, comm) +
                                    ": the windows by which its ranks tell each other of device "
                                    "memory cannot be made");
        add(*win, std::move(state));
        return code;
    } catch (const std::bad_alloc&) {
        return error::raise(Owner(comm), MPI_ERR_NO_MEM,
                            comm::where(CallId::kWinCreateDynamic, comm) + ": no host memory left");
    }
}

int attach(const Call& call, Real real) {
    const Operand& memory = call.operands.front();
    const std::shared_ptr<State> state = find(call.owner.win);
    if (state == nullptr || state->directory == nullptr || memory.count < 0)
        return attach_nothing(call, real);
    const auto fail = [&call](int mpi_class, const std::string& text) {
        return error::raise(call, mpi_class, comm::where(call.id, call.owner) + ": " + text);
    };
    const std::shared_ptr<const Mirrors> others = state->mirrors();
    if (std::any_of(others->begin(), others->end(), [&](const auto& other) { return overlap(*other, memory); }))
        return fail(MPI_ERR_RMA_ATTACH, "some of the memory is attached to the window already: detach it first");
    const auto mirror = std::make_shared<Mirror>(memory.address, static_cast<std::size_t>(memory.count));
    staging::Failure failure = mirror->prepare();
    if (!failure)
        failure = Mirror::fill({&mirror, 1});
    if (failure)
        return fail(failure.mpi_class, failure.why);
    Operand use = memory;
    use.address = mirror->address();
    if (const int code = real(&use); code != MPI_SUCCESS)
        return code;
    state->add(mirror);
    const int told = state->directory->add({number(mirror->base()), mirror->bytes(), number(mirror->address())});
    if (told == MPI_SUCCESS)
        return told;
    state->remove(mirror.get());
    real::Win_detach(call.owner.win, mirror->address());
    return fail(told, told == MPI_ERR_RMA_ATTACH
                          ? fmt::format("{} regions of device memory are attached to the window, and no rank can have "
                                        "more: attach fewer, larger ones",
                                        Directory::kMostRegions)
                          : "the other ranks cannot be told of the memory");
}

// What others have put before is on the device then, as after MPI_Win_free.
int detach(MPI_Win win, const void* base) {
    const call::Inside guard;
    const std::shared_ptr<State> state = find(win);
    const std::shared_ptr<Mirror> mirror = state != nullptr ? state->mirror_of(base) : nullptr;
    if (mirror == nullptr || state->directory == nullptr) {
        if (!device::on_device(base) || settings::values().cuda_aware_mpi)
            return real::Win_detach(win, base);
        return error::raise(Owner(win), MPI_ERR_BASE,
                            comm::where(CallId::kWinDetach, Owner(win)) +
                                ": the address is device memory, and none that is attached to the window "
                                "begins there: pass the address that MPI_Win_attach was given");
    }
    if (const int code = real::Win_detach(win, mirror->address()); code != MPI_SUCCESS)
        return code;
    const int told = state->directory->remove(number(base));
    const staging::Failure failure = Mirror::update({&mirror, 1});
    state->remove(mirror.get());
    if (failure)
        return error::raise(Owner(win), failure.mpi_class,
                            comm::where(CallId::kWinDetach, Owner(win)) + ": " + failure.why);
    return told == MPI_SUCCESS ? told
                               : error::raise(Owner(win), told,
                                              comm::where(CallId::kWinDetach, Owner(win)) +
                                                  ": the other ranks cannot be told that the memory is gone");
}

}  // namespace swy::window
