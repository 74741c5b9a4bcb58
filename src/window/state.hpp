// What is known of a window. Used by src/window alone.
#pragma once

#include <mpi.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "window/direct.hpp"
#include "window/directory.hpp"
#include "window/mirror.hpp"
#include "window/pending.hpp"

namespace swy::window {

// The mirrors of a window's device memory in this process: one of a window that was made over it, one of each attached
// region of a dynamic window.
using Mirrors = std::vector<std::shared_ptr<Mirror>>;

class State {
  public:
    Pending pending;
    std::unique_ptr<Directory> directory;  // of a dynamic window in a job with GPUs
    std::shared_ptr<Direct> direct;        // of one that has no mirrors

    // Set while an assertion of the program's says that no other rank changes the window until it next synchronises.
    std::atomic<bool> nothing_put{false};

    std::shared_ptr<const Mirrors> mirrors() const;             // never null
    void add(std::shared_ptr<Mirror> mirror);                   // throws std::bad_alloc
    void remove(const Mirror* mirror);                          // throws std::bad_alloc
    std::shared_ptr<Mirror> mirror_of(const void* base) const;  // null where none begins there
    bool has_mirrored() const { return has_mirrored_.load(); }  // now, or earlier

  private:
    mutable std::mutex mutex_;
    std::shared_ptr<const Mirrors> mirrors_ = std::make_shared<const Mirrors>();  // replaced as a whole
    std::atomic<bool> has_mirrored_{false};
};

std::shared_ptr<State> find(MPI_Win win);         // null where nothing is known
std::shared_ptr<State> find_or_add(MPI_Win win);  // throws std::bad_alloc
void add(MPI_Win win, std::shared_ptr<State> state);
std::shared_ptr<State> remove(MPI_Win win);  // null where nothing is known

}  // namespace swy::window
