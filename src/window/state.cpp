#include "window/state.hpp"

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>

#include "window/window.hpp"

namespace swy::window {

constinit std::atomic<int> known_windows{0}, special_windows{0};

namespace {

constinit std::mutex windows_mutex;
// Not emptied at exit: MPI and the CUDA driver are gone then.
std::map<MPI_Win, std::shared_ptr<State>>& windows() {
    static auto* all = new std::map<MPI_Win, std::shared_ptr<State>>;
    return *all;
}

bool is_special(const State& state) {
    return state.directory != nullptr || state.direct != nullptr;
}

}  // namespace

std::shared_ptr<const Mirrors> State::mirrors() const {
    const std::scoped_lock lock(mutex_);
    return mirrors_;
}

void State::add(std::shared_ptr<Mirror> mirror) {
    const std::scoped_lock lock(mutex_);
    auto all = std::make_shared<Mirrors>(*mirrors_);
    all->push_back(std::move(mirror));
    mirrors_ = std::move(all);
    has_mirrored_ = true;
}

void State::remove(const Mirror* mirror) {
    const std::scoped_lock lock(mutex_);
    auto all = std::make_shared<Mirrors>(*mirrors_);
    std::erase_if(*all, [mirror](const std::shared_ptr<Mirror>& one) { return one.get() == mirror; });
    mirrors_ = std::move(all);
}

std::shared_ptr<Mirror> State::mirror_of(const void* base) const {
    const std::shared_ptr<const Mirrors> all = mirrors();
    const auto found = std::find_if(all->begin(), all->end(),
                                    [base](const std::shared_ptr<Mirror>& one) { return one->base() == base; });
    return found != all->end() ? *found : nullptr;
}

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
    special_windows += is_special(*state);
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
    special_windows -= is_special(*state);
    return state;
}

}  // namespace swy::window
