// Groups by name: declared by the program, in the file of SWITCHYARD_GROUPS, or a process set of the launcher, asked
// for in this order. A communicator of one is made by its members alone. The extension's doors call.
#pragma once

#include <mpi.h>

#include <string>

namespace swy::comm {

// Called by lifecycle. Collective over MPI_COMM_WORLD, by all ranks where rank 0's settings name a file: it alone reads
// that, so that all have the same groups. MPI's code; what is wrong with the file is told to who asks for a group.
int share_group_file(const std::string& file);
void forget_groups();

// Local. A name that was declared before is declared anew.
int declare_group(const std::string& name, MPI_Group group);

// Collective over the group's members. MPI_COMM_NULL for a rank outside, at once. MPI's code; "" in `problem`, or what
// is wrong with the name: nothing has been raised then.
int from_name(const std::string& name, MPI_Comm& comm, std::string& problem);

}  // namespace swy::comm
