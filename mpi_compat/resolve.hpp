// How a pointer in namespace real finds its function. real.cpp (generated) is the only user.
#pragma once

#include <mpi.h>

#include <type_traits>

#pragma GCC visibility push(hidden)
namespace swy::real {

extern const char* const kNames[];  // "PMPI_Send" ..., by index

// The MPI function of this name, beyond Switchyard's own. Null, and a message on stderr, when there is none.
void* find(const char* name);

// What a pointer points to until its first call: finds the function, makes the pointer point to it, calls it.
template <auto* kPointer, int kName>
struct First;

template <typename R, typename... A, R (**kPointer)(A...), int kName>
struct First<kPointer, kName> {
    static R call(A... arguments) {
        const auto function = reinterpret_cast<R (*)(A...)>(find(kNames[kName]));
        if (function == nullptr) {
            if constexpr (std::is_same_v<R, int>)
                return MPI_ERR_INTERN;
            else
                return R{};
        }
        __atomic_store_n(kPointer, function, __ATOMIC_RELAXED);  // threads may meet here; all write the same
        return function(arguments...);
    }
};

}  // namespace swy::real
#pragma GCC visibility pop
