#include "round.hpp"

namespace staged_test {

std::vector<Communicator> communicators(int rank, int size) {
    MPI_Comm backwards, half, between, uneven, around_last;
    MPI_Comm_split(MPI_COMM_WORLD, 0, size - rank, &backwards);
    MPI_Comm_split(MPI_COMM_WORLD, rank < size / 2 ? 0 : 1, rank, &half);
    std::vector<Communicator> all{{MPI_COMM_WORLD, true}, {MPI_COMM_WORLD, true}, {backwards, true}, {half, true}};
    if (size > 1) {
        MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, rank < size / 2 ? size / 2 : 0, 1, &between);
        all.push_back({between, rank < size / 2});
        const bool last = rank == size - 1;
        MPI_Comm_split(MPI_COMM_WORLD, last ? 0 : 1, size - rank, &uneven);
        MPI_Intercomm_create(uneven, 0, MPI_COMM_WORLD, last ? size - 2 : size - 1, 2, &around_last);
        all.push_back({uneven, true});
        all.push_back({around_last, last});
    }
    for (const Communicator& communicator : all)
        MPI_Comm_set_errhandler(communicator.comm, MPI_ERRORS_RETURN);
    return all;
}

// The first two are the world itself.
void release(std::vector<Communicator>& all) {
    for (std::size_t i = 2; i < all.size(); ++i)
        MPI_Comm_free(&all[i].comm);
    all.clear();
}

Round round_on(const Communicator& chosen, Dice& common, Dice& own) {
    Round round(common, own, chosen.comm);
    int inter = 0;
    MPI_Comm_test_inter(chosen.comm, &inter);
    MPI_Comm_rank(chosen.comm, &round.rank);
    MPI_Comm_size(chosen.comm, &round.size);
    round.others = round.size;
    round.inter = inter != 0;
    round.first_group = chosen.first_group;
    if (round.inter)
        MPI_Comm_remote_size(chosen.comm, &round.others);
    return round;
}

}  // namespace staged_test
