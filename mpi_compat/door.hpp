// What the generated doors stand on. Included by them alone.
#pragma once

#include <mpi.h>

#include "call_ids.hpp"
#include "datatype/extension.hpp"
#include "p2p/plain.hpp"
#include "real.hpp"
#include "route/call.hpp"
#include "route/child.hpp"
#include "route/gate.hpp"
#include "route/plain.hpp"
#include "route/route.hpp"

#define SWY_EXPORT __attribute__((visibility("default")))

// The profiling name is the same function: Open MPI's Fortran bindings call PMPI_X, and profiling tools do. So is one
// by which the library finds its own, whatever else in the process has the public names.
#define SWY_PAIR(name)                                                          \
    extern "C" SWY_EXPORT decltype(name) P##name __attribute__((alias(#name))); \
    extern "C" __attribute__((visibility("hidden"))) decltype(name) swy_##name __attribute__((alias(#name)));
