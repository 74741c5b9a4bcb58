// How a function pointer in namespace real finds its function, for real.cpp (generated), and in which library a
// function lies.
#pragma once

#include <link.h>
#include <mpi.h>

#include <type_traits>

#pragma GCC visibility push(hidden)
namespace swy::real {

extern const char* const kNames[];  // "PMPI_Send" ..., by index; a null pointer ends them

// Finds the MPI function of this name, beyond Switchyard's own. Returns null, with a message on stderr, when there is
// none.
void* find(const char* name);

// The library, or the program, that an address lies in; null for none.
const link_map* object_of(const void* address);

// Open MPI's library in this process; null where it is not loaded.
const link_map* libmpi();

// What a function pointer points to until its first call: finds the function, makes the pointer point to it, and calls
// it.
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
