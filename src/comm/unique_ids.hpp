// The unique ids by which NCCL makes one communicator of many ranks. For setup.cpp.
#pragma once

#include <string>
#include <vector>

#include "comm/state.hpp"
#include "nccl/communicator.hpp"

namespace swy::comm {

// Returns how many ids to use for so many ranks, where NCCL takes several. All ranks that an id serves tell the process
// that has drawn it where they are, one after the other, so a large group is divided; a small one gains nothing.
int ids_for(int ranks);

// Returns the rank that draws the id of that number, from 0 to ids - 1: the first of those that NCCL has it serve (NCCL
// guide, "Creating a communicator using multiple ncclUniqueIds").
int drawn_by(int number, int ids, int ranks);

// Draws the other ids. Collective over the communicator, whose rank 0 has drawn the first one. `all` is empty on all
// ranks where any id could not be drawn, and `problem` says why on the rank that could not. Returns MPI's code.
int draw_others(const State& state, const nccl::UniqueId& first, int ids, std::vector<nccl::UniqueId>& all,
                std::string& problem);

}  // namespace swy::comm
