#include "comm/control.hpp"

#include <map>
#include <mutex>
#include <vector>

#include "real.hpp"
#include "request/wait.hpp"

namespace swy::comm {
namespace {

MPI_Comm control = MPI_COMM_NULL;

// Words heard, by undertaking: two threads may wait for different ones, and each may receive the other's.
struct Heard {
    std::mutex mutex;
    std::map<Undertaking, int> failures;
};
Heard& heard() {
    static auto* all = new Heard;  // not destroyed at exit
    return *all;
}

void receive_all() {
    int there = 0;
    MPI_Message message = MPI_MESSAGE_NULL;
    while (real::Improbe(MPI_ANY_SOURCE, kFailureTag, control, &there, &message, MPI_STATUS_IGNORE) == MPI_SUCCESS &&
           there) {
        Undertaking what = 0;
        real::Mrecv(&what, 1, MPI_UINT64_T, &message, MPI_STATUS_IGNORE);
        ++heard().failures[what];
    }
}

// The communicator's ranks as ranks of MPI_COMM_WORLD, which are those of the control communicator.
std::vector<int> in_world(const State& state) {
    std::vector<int> ranks(static_cast<std::size_t>(state.size)), world(ranks.size());
    for (int i = 0; i < state.size; ++i)
        ranks[static_cast<std::size_t>(i)] = i;
    MPI_Group group = MPI_GROUP_NULL;
    MPI_Group all = MPI_GROUP_NULL;
    real::Comm_group(state.handle, &group);
    real::Comm_group(control, &all);
    real::Group_translate_ranks(group, state.size, ranks.data(), all, world.data());
    real::Group_free(&group);
    real::Group_free(&all);
    return world;
}

}  // namespace

int start_control() {
    const int rc = real::Comm_dup(MPI_COMM_WORLD, &control);
    return rc != MPI_SUCCESS ? rc : real::Comm_set_errhandler(control, MPI_ERRORS_RETURN);
}

MPI_Comm control_communicator() {
    return control;
}

void stop_control() {
    if (control != MPI_COMM_NULL)
        real::Comm_free(&control);
}

int tell_failure(const State& state, Undertaking what) {
    const std::vector<int> world = in_world(state);
    for (int rank = 0; rank < state.size; ++rank) {
        if (rank == state.rank)
            continue;
        // Eight bytes: MPI sends them at once, and every rank takes them in while it waits.
        const int rc = real::Send(&what, 1, MPI_UINT64_T, world[static_cast<std::size_t>(rank)], kFailureTag, control);
        if (rc != MPI_SUCCESS)
            return rc;
    }
    return MPI_SUCCESS;
}

bool failure_told(Undertaking what) {
    const std::scoped_lock lock(heard().mutex);
    receive_all();
    return heard().failures.count(what) != 0;
}

void hear_out(Undertaking what, int others) {
    for (;;) {
        {
            const std::scoped_lock lock(heard().mutex);
            receive_all();
            const auto it = heard().failures.find(what);
            const int so_far = it == heard().failures.end() ? 0 : it->second;
            if (so_far >= others) {
                heard().failures.erase(what);
                return;
            }
        }
        request::progress();
    }
}

}  // namespace swy::comm
