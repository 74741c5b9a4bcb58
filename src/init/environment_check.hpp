// Is this process one that Switchyard can serve? The wrappers of MPI's start and lifecycle.cpp ask this.
#pragma once

#include <mpi.h>

#include <string>

namespace swy::init {

// Looks, before any call of MPI, for the library that defines MPI's functions after this one. Returns "" where that is
// Open MPI, otherwise why Switchyard takes no part in this process, and what to do.
std::string other_mpi();

// The first exchange of the ranks: `most` becomes the maximum of `mine`. Says once on standard error what may be wrong
// when other ranks do not come, since those without Switchyard never will. Returns MPI's code.
int first_meeting(int mine, int& most);

}  // namespace swy::init
