#include "window/state.hpp"

#include <map>
#include <mutex>
#include <utility>

#include "window/window.hpp"

namespace swy::window {

constinit std::atomic<int> known_windows{0};

namespace {

constinit std::mutex windows_mutex;
// Not emptied at exit: MPI and the CUDA driver are gone then.
std::map<MPI_Win, std::shared_ptr<State>>& windows() {
    static auto* all = new std::map<MPI_Win, std::shared_ptr<State>>;
    return *all;
}

}  // namespace

std::shared_ptr<State> find(MPI_Win win) {
    const std::scoped_lock lock(windows_mutex);
    const auto found = windows().find(win);
    return found != windows().end() ? found->second : nullptr;
}

std::shared_ptr<State> find_or_add(MPI_Win win) {
    const std::scoped_lock lock(windows_mutex);
    std::shared_ptr<State>& state = windows()[win];
    if (state == nullptr) {
        state = std::make_shared<State>();
        ++known_windows;
    }
    return state;
}

void add(MPI_Win win, std::shared_ptr<State> state) {
    const std::scoped_lock lock(windows_mutex);
    windows()[win] = std::move(state);
    ++known_windows;
}

std::shared_ptr<State> remove(MPI_Win win) {
    const std::scoped_lock lock(windows_mutex);
    const auto found = windows().find(win);
    if (found == windows().end())
        return nullptr;
    std::shared_ptr<State> state = std::move(found->second);
    windows().erase(found);
    --known_windows;
    return state;
}

}  // namespace swy::window
