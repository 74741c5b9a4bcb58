// The datatypes and the operator that mpix_switchyard.h adds to MPI's. They are MPI objects, made when the program
// first asks for one and freed when MPI is finalized. MPI cannot reduce these types: an operator of this library takes
// the place of the predefined one. The wrappers and src/datatype use this.
#pragma once

#include <mpi.h>

#include <atomic>
#include <cstddef>

#include "datatype/element.hpp"

namespace swy::datatype {

// Return MPI_DATATYPE_NULL or MPI_OP_NULL, with a message, outside the time from MPI_Init or MPI_Session_init to
// MPI_Finalize.
MPI_Datatype extension_type(Element element);  // kFloat16, kBfloat16, kFloat8E4m3 or kFloat8E5m2
MPI_Op average_operator();

// How many sessions are open; src/init counts them. Sessions give a process MPI's objects without MPI_Init (MPI 4.0
// section 11.3).
extern std::atomic<int> open_sessions;

// True once the program has asked for one of them. A program that has not pays only for this test.
[[gnu::visibility("hidden")]] extern std::atomic<bool> extensions_in_use;

MPI_Op find_operator(MPI_Op op, MPI_Datatype type, bool may_average);
bool is_average(MPI_Op op);
bool find_extension(MPI_Datatype type, ElementOf& element);

// The operator to pass to the real MPI: `op` itself, except ours for a predefined operator on one of our types, MPI_SUM
// for MPIX_AVG where the call averages, and MPI_OP_NULL, for which MPI raises the error of an operator that a type does
// not have.
inline MPI_Op operator_for(MPI_Op op, MPI_Datatype type, bool may_average) {
    return extensions_in_use.load(std::memory_order_relaxed) ? find_operator(op, type, may_average) : op;
}
inline bool extended() {
    return extensions_in_use.load(std::memory_order_relaxed);
}
inline bool averages(MPI_Op op) {
    return extensions_in_use.load(std::memory_order_relaxed) && is_average(op);
}

// Divides `count` sums at `address` by the number of processes that they are sums over: in float for our types,
// rounding towards zero for integers.
void divide(void* address, std::size_t count, Element element, int processes);

// Frees them when MPI is finalized in this process.
void release_extensions();

}  // namespace swy::datatype
