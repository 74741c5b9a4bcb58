// Launch tokens and control messages leave late, as they may when MPI has yet to connect two ranks or has no room: a
// message that MPI_Isend has taken over goes on only while the process is in MPI, and here it takes HOLD_TURNS turns of
// MPI's progress engine. Loaded behind the library, by held_sends.test. The request that the library gets is a
// generalised one.
#include <dlfcn.h>
#include <mpi.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <list>
#include <mutex>
#include <vector>

#include "comm/launch_tokens.hpp"
#include "p2p/control.hpp"

namespace {

struct Held {
    std::vector<std::byte> bytes;  // never freed: nobody asks when MPI has read them
    int to, tag;
    MPI_Comm comm;
    MPI_Request shown;  // what the library tests
    long leaves;        // in this turn
};

std::recursive_mutex mutex;
std::list<Held*>& held() {
    static auto* all = new std::list<Held*>;  // not destroyed at exit
    return *all;
}
long turns = 0, all_held = 0;

using Isend = int (*)(const void*, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request*);
Isend isend() {
    static const auto next = reinterpret_cast<Isend>(dlsym(RTLD_NEXT, "PMPI_Isend"));
    return next;
}

bool is_held(MPI_Datatype type, int count) {
    return type == MPI_BYTE && (count == sizeof(swy::comm::Launch) || count == sizeof(swy::p2p::Control));
}

// Sends that are due leave, in the order in which they were made, and are complete for the library.
int turn() {
    const std::scoped_lock lock(mutex);
    ++turns;
    while (!held().empty() && held().front()->leaves <= turns) {
        const Held* const one = held().front();
        held().pop_front();
        MPI_Request real = MPI_REQUEST_NULL;
        if (isend()(one->bytes.data(), static_cast<int>(one->bytes.size()), MPI_BYTE, one->to, one->tag, one->comm,
                    &real) != MPI_SUCCESS)
            std::abort();
        PMPI_Request_free(&real);
        PMPI_Grequest_complete(one->shown);
    }
    return 0;
}

void take_part_in_progress() {
    using Register = int (*)(int (*)());
    const auto add = reinterpret_cast<Register>(dlsym(RTLD_DEFAULT, "opal_progress_register"));
    if (add == nullptr || add(turn) != 0)
        std::abort();
}

int query(void*, MPI_Status* status) {
    PMPI_Status_set_elements(status, MPI_BYTE, 0);
    PMPI_Status_set_cancelled(status, 0);
    status->MPI_SOURCE = status->MPI_TAG = MPI_UNDEFINED;
    return MPI_SUCCESS;
}
int release(void*) {
    return MPI_SUCCESS;
}
int cancel(void*, int) {
    return MPI_SUCCESS;
}

__attribute__((destructor)) void say() {
    if (all_held != 0)
        std::fprintf(stderr, "%ld messages left late\n", all_held);
}

}  // namespace

extern "C" {

__attribute__((visibility("default"))) int PMPI_Isend(const void* data, int count, MPI_Datatype type, int to, int tag,
                                                      MPI_Comm comm, MPI_Request* request) {
    static const long wanted = std::atol(std::getenv("HOLD_TURNS"));
    if (!is_held(type, count))
        return isend()(data, count, type, to, tag, comm, request);
    static std::once_flag once;
    std::call_once(once, take_part_in_progress);
    const std::scoped_lock lock(mutex);
    ++all_held;
    if (const int code = PMPI_Grequest_start(query, release, cancel, nullptr, request); code != MPI_SUCCESS)
        return code;
    const auto* bytes = static_cast<const std::byte*>(data);
    held().push_back(new Held{{bytes, bytes + count}, to, tag, comm, *request, turns + wanted});
    return MPI_SUCCESS;
}
}
