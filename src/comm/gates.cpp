#include "comm/gates.hpp"

#include <map>
#include <mutex>
#include <vector>

#include "call/depth.hpp"
#include "call/replace.hpp"
#include "comm/state.hpp"
#include "comm/world.hpp"
#include "progress/wait.hpp"
#include "real.hpp"

namespace swy::comm {
namespace {

// A copy of MPI_COMM_WORLD for the calls whose ranks have no communicator of their own. Its tags are the program's.
MPI_Comm meetings = MPI_COMM_NULL;

bool has_gate(MPI_Comm comm) {
    const State* state = comm != MPI_COMM_NULL ? of(comm) : nullptr;
    return state != nullptr && !state->spans_jobs && (state->inter || state->size > 1);
}

// What MPI refuses is left to the real call, which has the words.
void pass(MPI_Comm comm) {
    if (!has_gate(comm))
        return;
    MPI_Request request = MPI_REQUEST_NULL;
    if (real::Ibarrier(comm, &request) == MPI_SUCCESS)
        real::Wait(&request, MPI_STATUS_IGNORE);
}

// Waits for a message without data from each of these ranks, and sends them one.
void meet(MPI_Comm comm, const std::vector<int>& sends_to, const std::vector<int>& receives_from, int tag) {
    std::vector<MPI_Request> requests(sends_to.size() + receives_from.size(), MPI_REQUEST_NULL);
    MPI_Request* next = requests.data();
    for (int rank : receives_from)
        real::Irecv(nullptr, 0, MPI_BYTE, rank, tag, comm, next++);
    for (int rank : sends_to)
        real::Isend(nullptr, 0, MPI_BYTE, rank, tag, comm, next++);
    real::Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
}

// The ranks of a group in a communicator; empty where one of them is not in it.
std::vector<int> ranks_of(MPI_Group group, MPI_Comm comm) {
    int size = 0;
    MPI_Group all = MPI_GROUP_NULL;
    if (real::Group_size(group, &size) != MPI_SUCCESS || real::Comm_group(comm, &all) != MPI_SUCCESS)
        return {};
    std::vector<int> mine(static_cast<std::size_t>(size)), theirs(mine.size());
    for (int i = 0; i < size; ++i)
        mine[static_cast<std::size_t>(i)] = i;
    real::Group_translate_ranks(group, size, mine.data(), all, theirs.data());
    real::Group_free(&all);
    for (int rank : theirs)
        if (rank == MPI_UNDEFINED)
            return {};
    return theirs;
}

// Windows and files have no communicator that a program could ask for, so each keeps a copy of the one it was made on.
template <typename Handle>
class Companions {
  public:
    void keep(Handle handle, MPI_Comm of) {
        MPI_Comm copy = MPI_COMM_NULL;
        if (!has_gate(of) || real::Comm_dup(of, &copy) != MPI_SUCCESS)
            return;
        const std::scoped_lock lock(mutex_);
        kept_[handle] = copy;
    }
    MPI_Comm of(Handle handle) const {
        const std::scoped_lock lock(mutex_);
        const auto found = kept_.find(handle);
        return found != kept_.end() ? found->second : MPI_COMM_NULL;
    }
    MPI_Comm take(Handle handle) {
        const std::scoped_lock lock(mutex_);
        const auto found = kept_.find(handle);
        if (found == kept_.end())
            return MPI_COMM_NULL;
        const MPI_Comm companion = found->second;
        kept_.erase(found);
        return companion;
    }

  private:
    mutable std::mutex mutex_;
    std::map<Handle, MPI_Comm> kept_;
};
template <typename Handle>
Companions<Handle>& companions() {
    static auto* the_companions = new Companions<Handle>;  // not destroyed at exit
    return *the_companions;
}

// The communicator over which a call with this argument is collective; MPI_COMM_NULL for arguments that do not say.
MPI_Comm collective_over(MPI_Comm comm) {
    return comm;
}
MPI_Comm collective_over(MPI_Win win) {
    return companions<MPI_Win>().of(win);
}
MPI_Comm collective_over(MPI_File file) {
    return companions<MPI_File>().of(file);
}
template <typename Other>
MPI_Comm collective_over(Other) {
    return MPI_COMM_NULL;
}

// The first argument that says so counts.
template <typename... A>
MPI_Comm first_of(A... arguments) {
    MPI_Comm found = MPI_COMM_NULL;
    ((found = found != MPI_COMM_NULL ? found : collective_over(arguments)), ...);
    return found;
}

// A collective call. Nothing is under way in the program's name while it waits at the gate.
template <auto& kPointer, typename... A>
int gated(A... arguments) {
    {
        const call::Inside guard;
        pass(first_of(arguments...));
    }
    return real::original<kPointer>(arguments...);
}

void keep(MPI_Win* made, MPI_Comm comm) {
    companions<MPI_Win>().keep(*made, comm);
}
void keep(MPI_File* made, MPI_Comm comm) {
    companions<MPI_File>().keep(*made, comm);
}
template <typename Other>
void keep(Other, MPI_Comm) {}

// One that makes a window or a file.
template <auto& kPointer, typename... A>
int gated_and_kept(A... arguments) {
    const int code = gated<kPointer>(arguments...);
    const call::Inside guard;
    if (code == MPI_SUCCESS)
        (keep(arguments, first_of(arguments...)), ...);
    return code;
}

// MPI_Comm_free does not wait for the other ranks in Open MPI, and Switchyard frees communicators of its own on each
// rank when it is done with them: it has no gate.
int comm_disconnect(MPI_Comm* comm) {
    if (comm != nullptr)
        pass(*comm);
    return real::original<real::Comm_disconnect>(comm);
}

// One that ends the window or the file that it is given.
template <auto& kPointer, typename Handle>
int gated_end_of(Handle* handle) {
    MPI_Comm companion = handle != nullptr ? companions<Handle>().take(*handle) : MPI_COMM_NULL;
    pass(companion);
    const int code = real::original<kPointer>(handle);
    if (companion != MPI_COMM_NULL)
        real::Comm_free(&companion);
    return code;
}

// The members alone take part: they meet in rounds, in each of which the distance doubles.
int create_group(MPI_Comm comm, MPI_Group group, int tag, MPI_Comm* made) {
    int me = MPI_UNDEFINED;
    if (has_gate(comm) && group != MPI_GROUP_NULL && real::Group_rank(group, &me) == MPI_SUCCESS &&
        me != MPI_UNDEFINED) {
        const std::vector<int> ranks = ranks_of(group, meetings);
        const auto size = ranks.size();
        const auto mine = static_cast<std::size_t>(me);
        for (std::size_t distance = 1; distance < size; distance *= 2)
            meet(meetings, {ranks[(mine + distance) % size]}, {ranks[(mine + size - distance) % size]}, tag);
    }
    return real::original<real::Comm_create_group>(comm, group, tag, made);
}

// The leaders meet between two gates of each side.
int intercomm_create(MPI_Comm local, int leader, MPI_Comm bridge, int remote_leader, int tag, MPI_Comm* made) {
    pass(local);
    int rank = MPI_UNDEFINED;
    if (local != MPI_COMM_NULL && real::Comm_rank(local, &rank) == MPI_SUCCESS && rank == leader &&
        bridge != MPI_COMM_NULL)
        if (State* state = of(bridge); state != nullptr)
            if (const int other = world_rank(*state, remote_leader); other >= 0)
                meet(meetings, {other}, {other}, tag);
    pass(local);
    return real::original<real::Intercomm_create>(local, leader, bridge, remote_leader, tag, made);
}

constexpr int kPosted = 0;

// MPI_Win_start may wait for the targets' MPI_Win_post (MPI 4.0 section 12.5.2), and does so here: each of these sends
// a message. MPI_Win_complete has no post to wait for then.
int win_post(MPI_Group group, int assertion, MPI_Win win) {
    const int code = real::original<real::Win_post>(group, assertion, win);
    const MPI_Comm companion = companions<MPI_Win>().of(win);
    if (code != MPI_SUCCESS || companion == MPI_COMM_NULL)
        return code;
    for (int rank : ranks_of(group, companion)) {
        MPI_Request request = MPI_REQUEST_NULL;
        if (real::Isend(nullptr, 0, MPI_BYTE, rank, kPosted, companion, &request) == MPI_SUCCESS)
            real::Request_free(&request);
    }
    return code;
}
int win_start(MPI_Group group, int assertion, MPI_Win win) {
    const MPI_Comm companion = companions<MPI_Win>().of(win);
    if (companion != MPI_COMM_NULL)
        meet(companion, {}, ranks_of(group, companion), kPosted);
    return real::original<real::Win_start>(group, assertion, win);
}
// MPI_Win_test alone does not run MPI's progress.
int win_wait(MPI_Win win) {
    int flag = 0;
    int code = MPI_SUCCESS;
    while (code == MPI_SUCCESS && flag == 0) {
        progress::progress();
        code = real::Win_test(win, &flag);
    }
    return code;
}

template <auto& kPointer, typename... A>
void gate(const char* name, int (*&)(A...)) {
    real::replace<kPointer>(name, gated<kPointer, A...>);
}
template <auto& kPointer, typename... A>
void gate_and_keep(const char* name, int (*&)(A...)) {
    real::replace<kPointer>(name, gated_and_kept<kPointer, A...>);
}

}  // namespace

int open_gates() {
    if (const int code = real::Comm_dup(MPI_COMM_WORLD, &meetings); code != MPI_SUCCESS)
        return code;
#define SWY_GATED(function) gate<real::function>("PMPI_" #function, real::function);
#define SWY_GATED_AND_KEPT(function) gate_and_keep<real::function>("PMPI_" #function, real::function);
#include "gated_calls.inc"
#undef SWY_GATED
#undef SWY_GATED_AND_KEPT
    real::replace<real::Comm_disconnect>("PMPI_Comm_disconnect", comm_disconnect);
    real::replace<real::Comm_create_group>("PMPI_Comm_create_group", create_group);
    real::replace<real::Intercomm_create>("PMPI_Intercomm_create", intercomm_create);
    real::replace<real::Win_free>("PMPI_Win_free", gated_end_of<real::Win_free, MPI_Win>);
    real::replace<real::Win_post>("PMPI_Win_post", win_post);
    real::replace<real::Win_start>("PMPI_Win_start", win_start);
    real::replace<real::Win_wait>("PMPI_Win_wait", win_wait);
    real::replace<real::File_close>("PMPI_File_close", gated_end_of<real::File_close, MPI_File>);
    return MPI_SUCCESS;
}

void close_gates() {
    if (meetings != MPI_COMM_NULL)
        real::Comm_free(&meetings);
}

}  // namespace swy::comm
