// The doors written by hand: MPI's start and end, a session's and a communicator's, and the question whether MPI takes
// device memory.
#include "route/lifecycle.hpp"

#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "comm/state.hpp"
#include "mpi_compat/door.hpp"
#include "route/surroundings.hpp"
#include "settings/settings.hpp"

using namespace swy;

namespace {

constinit bool takes_part = true;

// One rank speaks for all, where a launcher of any MPI says which this is.
bool speaks() {
    for (const char* name : {"PMIX_RANK", "PMI_RANK"})
        if (const char* rank = std::getenv(name); rank != nullptr)
            return std::string_view(rank) == "0";
    return true;
}

// MPI's start, and Switchyard's with it. Where it is not Open MPI that starts, every door stays closed.
template <typename Start>
int start_with(Start start) {
    if (const std::string other = route::other_mpi(); !other.empty()) {
        takes_part = false;
        if (speaks())
            std::fprintf(stderr, "switchyard: %s\n", other.c_str());
        return start();
    }
    gate::before_init();
    const int code = start();
    return code == MPI_SUCCESS ? route::after_init() : code;
}

}  // namespace

extern "C" SWY_EXPORT int MPI_Init(int* argc, char*** argv) {
    return start_with([=] { return real::Init(argc, argv); });
}
SWY_PAIR(MPI_Init)

extern "C" SWY_EXPORT int MPI_Init_thread(int* argc, char*** argv, int required, int* provided) {
    return start_with([=] { return real::Init_thread(argc, argv, required, provided); });
}
SWY_PAIR(MPI_Init_thread)

extern "C" SWY_EXPORT int MPI_Comm_set_errhandler(MPI_Comm comm, MPI_Errhandler errhandler) {
    if (errhandler != MPI_ERRORS_ARE_FATAL)
        p2p::errors_return.store(true, std::memory_order_relaxed);
    return real::Comm_set_errhandler(comm, errhandler);
}
SWY_PAIR(MPI_Comm_set_errhandler)

extern "C" SWY_EXPORT int MPI_Comm_free(MPI_Comm* comm) {
    comm::Freeing freeing(comm != nullptr ? *comm : MPI_COMM_NULL);
    return freeing.done(real::Comm_free(comm));
}
SWY_PAIR(MPI_Comm_free)

extern "C" SWY_EXPORT int MPI_Comm_disconnect(MPI_Comm* comm) {
    comm::Freeing freeing(comm != nullptr ? *comm : MPI_COMM_NULL);
    return freeing.done(real::Comm_disconnect(comm));
}
SWY_PAIR(MPI_Comm_disconnect)

extern "C" SWY_EXPORT int MPI_Finalize(void) {
    if (!takes_part)
        return real::Finalize();
    int up = 0;
    int down = 0;
    real::Initialized(&up);
    real::Finalized(&down);
    if (up != 0 && down == 0)  // else the real call says what is wrong
        route::before_finalize();
    return real::Finalize();
}
SWY_PAIR(MPI_Finalize)

#ifdef MPI_SESSION_NULL  // MPI 4.0; Open MPI has sessions since 5.0
extern "C" SWY_EXPORT int MPI_Session_init(MPI_Info info, MPI_Errhandler errhandler, MPI_Session* session) {
    gate::before_init();
    const int code = real::Session_init(info, errhandler, session);
    if (code != MPI_SUCCESS)
        return code;
    const std::string problems = route::after_session_init();
    if (problems.empty())
        return MPI_SUCCESS;
    std::fprintf(stderr, "switchyard: MPI_Session_init: %s\n", problems.c_str());
    real::Session_call_errhandler(*session, MPI_ERR_OTHER);
    real::Session_finalize(session);
    return MPI_ERR_OTHER;
}
SWY_PAIR(MPI_Session_init)

extern "C" SWY_EXPORT int MPI_Session_finalize(MPI_Session* session) {
    if (session != nullptr && *session != MPI_SESSION_NULL)  // else the real call says what is wrong
        route::before_session_finalize();
    return real::Session_finalize(session);
}
SWY_PAIR(MPI_Session_finalize)
#endif

// Programs ask this (mpi-ext.h declares it where Open MPI has it) before they pass device pointers.
extern "C" SWY_EXPORT int MPIX_Query_cuda_support(void) {
    return settings::values().enabled && !gate::closed() ? 1 : real::XQuery_cuda_support();
}
SWY_PAIR(MPIX_Query_cuda_support)
