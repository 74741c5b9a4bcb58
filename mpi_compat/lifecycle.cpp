// The doors written by hand: MPI's start and end, and the question whether MPI takes device memory.
#include "route/lifecycle.hpp"
#include "mpi_compat/door.hpp"
#include "settings/settings.hpp"

using namespace swy;

extern "C" SWY_EXPORT int MPI_Init(int* argc, char*** argv) {
    gate::before_init();
    const int code = real::Init(argc, argv);
    return code == MPI_SUCCESS ? route::after_init() : code;
}
SWY_PAIR(MPI_Init)

extern "C" SWY_EXPORT int MPI_Init_thread(int* argc, char*** argv, int required, int* provided) {
    gate::before_init();
    const int code = real::Init_thread(argc, argv, required, provided);
    return code == MPI_SUCCESS ? route::after_init() : code;
}
SWY_PAIR(MPI_Init_thread)

extern "C" SWY_EXPORT int MPI_Finalize(void) {
    int up = 0;
    int down = 0;
    real::Initialized(&up);
    real::Finalized(&down);
    if (up != 0 && down == 0)  // else the real call says what is wrong
        route::before_finalize();
    return real::Finalize();
}
SWY_PAIR(MPI_Finalize)

// Programs ask this (mpi-ext.h declares it where Open MPI has it) before they pass device pointers.
extern "C" SWY_EXPORT int MPIX_Query_cuda_support(void) {
    return settings::values().enabled && !gate::closed() ? 1 : real::XQuery_cuda_support();
}
SWY_PAIR(MPIX_Query_cuda_support)
