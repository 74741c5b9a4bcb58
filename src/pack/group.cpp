#include "pack/group.hpp"

#include "real.hpp"

namespace swy::pack {

Group group_of(MPI_Comm comm) {
    Group group;
    if (comm == MPI_COMM_NULL)
        return group;
    int inter = 0;
    real::Comm_test_inter(comm, &inter);
    real::Comm_rank(comm, &group.rank);
    real::Comm_size(comm, &group.own);
    group.inter = inter != 0;
    group.others = group.own;
    if (group.inter)
        real::Comm_remote_size(comm, &group.others);
    return group;
}

}  // namespace swy::pack
