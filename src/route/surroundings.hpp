// Is this process one that Switchyard can serve? Asked at MPI's start by its doors and by lifecycle.
#pragma once

#include <mpi.h>

#include <string>

namespace swy::route {

// What else answers to MPI's names here, before any call of MPI: "" where that is Open MPI, else why Switchyard takes
// no part in this process, and what to do.
std::string other_mpi();

// The first thing that ranks do together: the maximum of `mine`. Says once on standard error what may be wrong when
// others do not come, since those without Switchyard never will. MPI's code.
int first_meeting(int mine, int& most);

}  // namespace swy::route
