// What makes a function one of the library's entry points. Each defines MPI_X or MPIX_X as extern "C" SWY_EXPORT and is
// followed by SWY_PAIR of its name.
#pragma once

#define SWY_EXPORT __attribute__((visibility("default")))

// The profiling name PMPI_X is the same function, since Open MPI's Fortran bindings and profiling tools call it. So is
// swy_X, by which the library finds its own functions, whatever else in the process has the public names.
#define SWY_PAIR(name)                                                          \
    extern "C" SWY_EXPORT decltype(name) P##name __attribute__((alias(#name))); \
    extern "C" __attribute__((visibility("hidden"))) decltype(name) swy_##name __attribute__((alias(#name)));
