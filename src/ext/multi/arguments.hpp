// Checks the arguments of a collective on several buffers, as far as one process can. Only collective.cpp uses this.
#pragma once

#include "comm/state.hpp"
#include "ext/multi/call.hpp"

namespace swy::multi {

// Returns MPI's code of an error that has been raised; otherwise sets `state` to the state of the call's communicator.
int check(const ListCall& call, comm::State*& state);

}  // namespace swy::multi
