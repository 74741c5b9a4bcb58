// What is known of a window. Used by src/window alone.
#pragma once

#include <mpi.h>

#include <memory>

#include "window/mirror.hpp"
#include "window/pending.hpp"

namespace swy::window {

struct State {
    Pending pending;
    std::unique_ptr<Mirror> mirror;  // of a window over device memory
};

std::shared_ptr<State> find(MPI_Win win);         // null where nothing is known
std::shared_ptr<State> find_or_add(MPI_Win win);  // throws std::bad_alloc
void add(MPI_Win win, std::shared_ptr<State> state);
std::shared_ptr<State> remove(MPI_Win win);  // null where nothing is known

}  // namespace swy::window
