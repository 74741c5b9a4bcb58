// MPI's collectives in their three forms behind one name: forms::Bcast() is MPI_Bcast, or MPI_Ibcast and what completes
// it, or a persistent request made, started, completed and freed, as forms::current says; with SWY_LARGE_COUNTS defined
// their large-count forms. Test programs only.
#pragma once

#include <mpi.h>

#include <mpi-ext.h>  // needs mpi.h

#include <functional>
#include <string>

#ifdef SWY_LARGE_COUNTS
#include <string_view>

#include "large_counts.hpp"
#endif

namespace forms {

enum class Form { kBlocking, kNonBlocking, kPersistent };

inline int wait(MPI_Request& request) {
    return MPI_Wait(&request, MPI_STATUS_IGNORE);
}

inline Form current = Form::kBlocking;
inline int starts = 1;                                    // of a persistent one
inline std::function<void()> before_start = [] {};        // each
inline std::function<int(MPI_Request&)> complete = wait;  // what becomes of a request that has been started
inline MPI_Info const info = MPI_INFO_NULL;

template <auto kBlocking, auto kNonBlocking, auto kPersistent, typename... A>
int call(A... arguments) {
    MPI_Request request = MPI_REQUEST_NULL;
    int code = MPI_SUCCESS;
    switch (current) {
        case Form::kBlocking:
            return kBlocking(arguments...);
        case Form::kNonBlocking:
            code = kNonBlocking(arguments..., &request);
            return code == MPI_SUCCESS ? complete(request) : code;
        case Form::kPersistent:
            break;
    }
    code = kPersistent(arguments..., info, &request);
    for (int i = 0; i < starts && code == MPI_SUCCESS; ++i) {
        before_start();
        code = MPI_Start(&request);
        if (code == MPI_SUCCESS)
            code = complete(request);
    }
    if (request != MPI_REQUEST_NULL)
        MPI_Request_free(&request);
    return code;
}

#if OMPI_MAJOR_VERSION >= 5
#define FORMS_PERSISTENT(name) MPI_##name##_init
inline constexpr const char* kPersistentPrefix = "MPI_";
#else
#define FORMS_PERSISTENT(name) MPIX_##name##_init
inline constexpr const char* kPersistentPrefix = "MPIX_";
#endif
#ifdef SWY_LARGE_COUNTS
#define FORMS_OF(name, small)                                                                                       \
    template <typename... A>                                                                                        \
    int name(A... arguments) {                                                                                      \
        const bool own = std::string_view(#name) == "Reduce_scatter";                                               \
        const int entries = large::entries(large::comm_of(arguments...), own);                                      \
        return call<MPI_##name##_c, MPI_I##small##_c, MPI_##name##_init_c>(large::argument(arguments, entries)...); \
    }
#else
#define FORMS_OF(name, small)                                                        \
    template <typename... A>                                                         \
    int name(A... arguments) {                                                       \
        return call<MPI_##name, MPI_I##small, FORMS_PERSISTENT(name)>(arguments...); \
    }
#endif

FORMS_OF(Bcast, bcast)
FORMS_OF(Gather, gather)
FORMS_OF(Gatherv, gatherv)
FORMS_OF(Scatter, scatter)
FORMS_OF(Scatterv, scatterv)
FORMS_OF(Allgather, allgather)
FORMS_OF(Allgatherv, allgatherv)
FORMS_OF(Alltoall, alltoall)
FORMS_OF(Alltoallv, alltoallv)
FORMS_OF(Alltoallw, alltoallw)
FORMS_OF(Reduce, reduce)
FORMS_OF(Allreduce, allreduce)
FORMS_OF(Reduce_scatter, reduce_scatter)
FORMS_OF(Reduce_scatter_block, reduce_scatter_block)
FORMS_OF(Scan, scan)
FORMS_OF(Exscan, exscan)
FORMS_OF(Neighbor_allgather, neighbor_allgather)
FORMS_OF(Neighbor_allgatherv, neighbor_allgatherv)
FORMS_OF(Neighbor_alltoall, neighbor_alltoall)
FORMS_OF(Neighbor_alltoallv, neighbor_alltoallv)
FORMS_OF(Neighbor_alltoallw, neighbor_alltoallw)
#undef FORMS_OF
#undef FORMS_PERSISTENT

// "MPI_Bcast" -> "MPI_Ibcast", "MPIX_Bcast_init"
inline std::string name(const std::string& blocking, Form form) {
    const std::string rest = blocking.substr(4);
    if (form == Form::kNonBlocking)
        return "MPI_I" + std::string(1, static_cast<char>(rest[0] - 'A' + 'a')) + rest.substr(1);
    return form == Form::kPersistent ? kPersistentPrefix + rest + "_init" : blocking;
}

}  // namespace forms
