// Wrappers written by hand: of MPI's initialisation and finalisation, of a session's, and of a communicator's calls.
#include "init/lifecycle.hpp"

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "call/resolve.hpp"
#include "comm/state.hpp"
#include "init/environment_check.hpp"
#include "mpi_compat/wrapper.hpp"
#include "progress/engine.hpp"
#include "report/last_words.hpp"
#include "settings/slurm.hpp"

using namespace swy;

namespace {

constinit bool takes_part = true;
constinit bool started = false;     // MPI, by a wrapper
constinit bool told_order = false;  // by check_order()

// Tells whether this process prints messages for the job: one rank does, where the launcher of any MPI says which one
// this is.
bool speaks() {
    for (const char* name : {"PMIX_RANK", "PMI_RANK"})
        if (const char* rank = std::getenv(name); rank != nullptr)
            return std::string_view(rank) == "0";
    return true;
}

// Where the dynamic linker finds libmpi first, no MPI call reaches Switchyard, not even MPI_Init: the library can only
// report it when it is loaded. PMPI_Init, which no profiling tool defines, shows the order.
[[gnu::constructor]] void check_order() {
    const link_map* ours = real::object_of(&takes_part);
    const link_map* first = real::object_of(dlsym(RTLD_DEFAULT, "PMPI_Init"));
    if (first == nullptr || first == ours || first != real::libmpi())
        return;
    told_order = true;
    if (!speaks())
        return;
    std::fprintf(
        stderr,
        "switchyard: this program has %s before %s, so its MPI calls go past Switchyard, and device memory in "
        "them crashes it. Link it with swycc, or with what `pkg-config --libs switchyard` prints before -lmpi; "
        "or start it by switchyard run or with LD_PRELOAD=%s\n",
        first->l_name, ours->l_name, ours->l_name);
}

// A program that takes MPI's functions from a libmpi which it has loaded itself passes Switchyard by too. Only its end
// shows that.
[[gnu::destructor]] void check_whether_started() {
    int initialized = 0;
    if (started || told_order || real::Initialized(&initialized) != MPI_SUCCESS || initialized == 0 || !speaks())
        return;
    std::fprintf(
        stderr,
        "switchyard: this program has started MPI by a function that it took from libmpi itself (dlopen and "
        "dlsym), so its MPI calls go past Switchyard, and device memory in them crashes it. Have it load %s in "
        "place of libmpi: that has all functions of MPI\n",
        real::object_of(&takes_part)->l_name);
}

// Initialises MPI, and Switchyard with it. Where another MPI than Open MPI is initialised, every wrapper only makes the
// real call.
template <typename Start>
int start_with(Start start) {
    started = true;
    if (const std::string other = init::other_mpi(); !other.empty()) {
        takes_part = false;
        if (speaks())
            std::fprintf(stderr, "switchyard: %s\n", other.c_str());
        return start();
    }
    driver_watch::before_init();
    const std::string alone = settings::tasks_without_pmix();  // before MPI gives a process alone PMIx's variables
    const int code = start();
    return code == MPI_SUCCESS ? init::after_init(alone) : code;
}

int let_go(MPI_Comm* comm, int (*free)(MPI_Comm*)) {
    if (comm != nullptr && comm::leave(*comm)) {
        *comm = MPI_COMM_NULL;
        return MPI_SUCCESS;
    }
    comm::Freeing freeing(comm != nullptr ? *comm : MPI_COMM_NULL);
    return freeing.done(free(comm));
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

// The other ranks get a signal then, and do not know of whom.
extern "C" SWY_EXPORT int MPI_Abort(MPI_Comm comm, int errorcode) {
    report::say_last_words("MPI_Abort");
    return real::Abort(comm, errorcode);
}
SWY_PAIR(MPI_Abort)

extern "C" SWY_EXPORT int MPI_Comm_set_errhandler(MPI_Comm comm, MPI_Errhandler errhandler) {
    if (errhandler != MPI_ERRORS_ARE_FATAL)
        fastpath::errors_return.store(true, std::memory_order_relaxed);
    const progress::Hold hold;  // the engine may have replaced handlers for a moment (request/real_end.hpp)
    return real::Comm_set_errhandler(comm, errhandler);
}
SWY_PAIR(MPI_Comm_set_errhandler)

extern "C" SWY_EXPORT int MPI_Comm_free(MPI_Comm* comm) {
    return let_go(comm, real::Comm_free);
}
SWY_PAIR(MPI_Comm_free)

extern "C" SWY_EXPORT int MPI_Comm_disconnect(MPI_Comm* comm) {
    return let_go(comm, real::Comm_disconnect);
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
        init::before_finalize();
    return real::Finalize();
}
SWY_PAIR(MPI_Finalize)

#ifdef MPI_SESSION_NULL  // MPI 4.0; Open MPI has sessions since 5.0
extern "C" SWY_EXPORT int MPI_Session_init(MPI_Info info, MPI_Errhandler errhandler, MPI_Session* session) {
    driver_watch::before_init();
    const int code = real::Session_init(info, errhandler, session);
    if (code != MPI_SUCCESS)
        return code;
    const std::string problems = init::after_session_init();
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
        init::before_session_finalize();
    return real::Session_finalize(session);
}
SWY_PAIR(MPI_Session_finalize)
#endif
