// Puts functions of this library in the place of real ones: all of it, the wrappers' inline tests too, calls MPI
// through the pointers of real.hpp, so a replaced pointer is what every call meets.
#pragma once

#include "call/resolve.hpp"

#pragma GCC visibility push(hidden)
namespace swy::real {

// The function that a replaced pointer had before; null while the pointer is not replaced.
template <auto& kPointer>
inline std::remove_reference_t<decltype(kPointer)> original = nullptr;

// Makes the pointer point to `function`. `name` is the profiling name of what it pointed to, as "PMPI_Send". Nothing is
// changed where this process has no such function, which find() tells.
template <auto& kPointer>
void replace(const char* name, std::remove_reference_t<decltype(kPointer)> function) {
    if (original<kPointer> == nullptr)
        original<kPointer> = reinterpret_cast<std::remove_reference_t<decltype(kPointer)>>(find(name));
    if (original<kPointer> != nullptr)
        __atomic_store_n(&kPointer, function, __ATOMIC_RELEASE);
}

}  // namespace swy::real
#pragma GCC visibility pop
