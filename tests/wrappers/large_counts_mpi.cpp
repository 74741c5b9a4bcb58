// What an MPI with large counts adds to the one at hand: MPI_Bcast_c and its kin, made of the functions with int
// counts. A number that no int holds is an error.
#include <dlfcn.h>

#include <climits>
#include <stdexcept>
#include <string>

#include "../large_counts.hpp"

namespace {

int checked(MPI_Count number) {
    if (number > INT_MAX || number < INT_MIN)
        throw std::out_of_range("no int");
    return static_cast<int>(number);
}

struct Count {
    MPI_Count value;
    operator int() const { return checked(value); }
};

template <typename Large>
struct Array {
    const Large* numbers;
    int entries;
    operator const Large*() const { return numbers; }
    operator const int*() const {
        for (int i = 0; numbers != nullptr && i < entries; ++i)
            checked(numbers[i]);
        return large::converted<int>(numbers, entries);
    }
};

Count narrow(MPI_Count count, int) {
    return {count};
}
Array<MPI_Count> narrow(const MPI_Count* counts, int entries) {
    return {counts, entries};
}
Array<MPI_Aint> narrow(const MPI_Aint* displs, int entries) {
    return {displs, entries};
}
template <typename Other>
Other narrow(Other argument, int) {
    return argument;
}

// The type of a function that makes a persistent request, from that of the blocking one.
template <typename F>
struct Persistent;
template <typename... P>
struct Persistent<int(P...)> {
    using Type = int(P..., MPI_Info, MPI_Request*);
};

// The function of libmpi itself: Switchyard has the same names.
template <typename F>
F* in_libmpi(const std::string& name) {
    static void* const library = dlopen("libmpi.so.40", RTLD_NOLOAD | RTLD_LAZY);
    return reinterpret_cast<F*>(dlsym(library, name.c_str()));
}

template <typename F, typename... A>
int forward(const std::string& name, A... arguments) {
    const int entries = large::entries(large::comm_of(arguments...), name.find("educe_scatter") != std::string::npos);
    try {
        return in_libmpi<F>(name)(narrow(arguments, entries)...);
    } catch (const std::out_of_range&) {
        return MPI_ERR_COUNT;
    }
}

}  // namespace

#if OMPI_MAJOR_VERSION >= 5
#define INIT_PREFIX "PMPI_"
#else
#define INIT_PREFIX "PMPIX_"
#endif

extern "C" {
#define FORWARD(name, small, parameters, arguments)                                                                 \
    int MPI_##name##_c(SWY_LIST parameters) {                                                                       \
        return forward<decltype(MPI_##name)>("PMPI_" #name, SWY_LIST arguments);                                    \
    }                                                                                                               \
    int MPI_I##small##_c(SWY_LIST parameters, MPI_Request* request) {                                               \
        return forward<decltype(MPI_I##small)>("PMPI_I" #small, SWY_LIST arguments, request);                       \
    }                                                                                                               \
    int MPI_##name##_init_c(SWY_LIST parameters, MPI_Info info, MPI_Request* request) {                             \
        return forward<Persistent<decltype(MPI_##name)>::Type>(INIT_PREFIX #name "_init", SWY_LIST arguments, info, \
                                                               request);                                            \
    }
LARGE_COUNT_COLLECTIVES(FORWARD)

#if OMPI_MAJOR_VERSION < 5
// An MPI with large counts has this without the X.
[[gnu::visibility("default")]] int MPI_Allreduce_init(const void* send, void* receive, int count, MPI_Datatype type,
                                                      MPI_Op op, MPI_Comm comm, MPI_Info info, MPI_Request* request) {
    return in_libmpi<decltype(MPI_Allreduce_init)>("PMPIX_Allreduce_init")(send, receive, count, type, op, comm, info,
                                                                           request);
}
#endif
}
