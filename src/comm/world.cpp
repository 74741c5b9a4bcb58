#include "comm/world.hpp"

#include <numeric>

#include "real.hpp"

namespace swy::comm {

std::vector<int> group_in_world(MPI_Comm comm, Group which) {
    MPI_Group group = MPI_GROUP_NULL;
    MPI_Group world = MPI_GROUP_NULL;
    (which == Group::kRemote ? real::Comm_remote_group : real::Comm_group)(comm, &group);
    real::Comm_group(MPI_COMM_WORLD, &world);
    int size = 0;
    real::Group_size(group, &size);
    std::vector<int> ranks(static_cast<std::size_t>(size)), translated(ranks.size());
    std::iota(ranks.begin(), ranks.end(), 0);
    real::Group_translate_ranks(group, size, ranks.data(), world, translated.data());
    for (int& rank : translated)
        if (rank == MPI_UNDEFINED)
            rank = -1;
    real::Group_free(&group);
    real::Group_free(&world);
    return translated;
}

int world_rank(State& state, int rank) {
    if (state.world.empty())
        state.world = group_in_world(state.handle, state.inter ? Group::kRemote : Group::kOwn);
    const bool there = rank >= 0 && static_cast<std::size_t>(rank) < state.world.size();
    return there ? state.world[static_cast<std::size_t>(rank)] : -1;
}

}  // namespace swy::comm
