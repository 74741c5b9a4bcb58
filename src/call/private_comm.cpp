#include "call/private_comm.hpp"

#include "real.hpp"

namespace swy::call {

// Not made by MPI_Comm_dup, which would call the program's attribute callbacks.
int make_private_comm(MPI_Comm comm, MPI_Comm* made) {
    MPI_Group group = MPI_GROUP_NULL;
    int rc = real::Comm_group(comm, &group);
    if (rc == MPI_SUCCESS)
        rc = real::Comm_create(comm, group, made);
    if (rc == MPI_SUCCESS)
        rc = real::Comm_set_errhandler(*made, MPI_ERRORS_RETURN);
    if (group != MPI_GROUP_NULL)
        real::Group_free(&group);
    return rc;
}

}  // namespace swy::call
