// What is wrong with the arguments of a collective on several buffers, as far as one process can tell. For
// collective.cpp alone.
#pragma once

#include "comm/state.hpp"
#include "multi/call.hpp"

namespace swy::multi {

// MPI's code, of an error that has been raised; else the state of the call's communicator.
int check(const ListCall& call, comm::State*& state);

}  // namespace swy::multi
