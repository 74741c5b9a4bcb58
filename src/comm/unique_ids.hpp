// The unique ids by which NCCL makes one communicator of many ranks. For establish.cpp.
#pragma once

#include <string>
#include <vector>

#include "carrier/nccl/communicator.hpp"
#include "comm/state.hpp"

namespace swy::comm {

// How many for so many ranks, where NCCL takes several. All ranks that an id serves tell the process that has drawn it
// where they are, one after the other, so a large group is divided; a small one gains nothing.
int ids_for(int ranks);

// Which rank draws the id of that number, from 0 to ids - 1: the first of those that NCCL has it serve (NCCL guide,
// "Creating a communicator using multiple ncclUniqueIds").
int drawn_by(int number, int ids, int ranks);

// Collective over the communicator, whose rank 0 has drawn the first one: the others. `all` is empty on all ranks where
// any of them could not be drawn, and `problem` says why on the rank that could not. MPI's code.
int draw_others(const State& state, const carrier::nccl::UniqueId& first, int ids,
                std::vector<carrier::nccl::UniqueId>& all, std::string& problem);

}  // namespace swy::comm
