// What is wrong with the arguments of a collective on several buffers, as far as one process can tell. For
// collective.cpp alone.
#pragma once

#include <string>

#include "comm/state.hpp"
#include "multi/call.hpp"

namespace swy::multi {

// "", or what is wrong, and the class of that error.
std::string problem_with(const Several& call, int& mpi_class);

// The state of the call's communicator; nullptr, with `problem` set, for one that such calls cannot be made on.
comm::State* state_of(const Several& call, std::string& problem);

}  // namespace swy::multi
