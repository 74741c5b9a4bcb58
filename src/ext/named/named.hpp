// Groups by name: declared by the program, listed in the file of SWITCHYARD_GROUPS, or a process set of the launcher,
// looked up in this order. The communicator of a group is made by its members alone. The extension's wrappers call
// these.
#pragma once

#include <mpi.h>

#include <string>

namespace swy::named {

// Called by init/lifecycle.cpp. Collective over MPI_COMM_WORLD, by all ranks where rank 0's settings name a file: only
// rank 0 reads it, so that all have the same groups. Returns MPI's code; an error in the file is reported to calls that
// ask for a group.
int share_group_file(const std::string& file);
void forget_groups();

// Local. A name that was declared before is replaced.
int declare_group(const std::string& name, MPI_Group group);

// Collective over the group's members. Gives MPI_COMM_NULL at once on a rank outside the group. Returns MPI's code;
// `problem` is "", or what is wrong with the name, for which nothing has been raised then.
int from_name(const std::string& name, MPI_Comm& comm, std::string& problem);

}  // namespace swy::named
