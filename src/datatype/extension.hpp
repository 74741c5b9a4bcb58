// The datatypes and the operator that mpix_switchyard.h adds to MPI's. They are MPI's own objects, made when the
// program first asks for one and freed when MPI goes down; what MPI lacks is how to reduce the types, which is an
// operator of ours in place of the predefined one. Doors and datatype/ use this.
#pragma once

#include <mpi.h>

#include <atomic>
#include <cstddef>

#include "datatype/element.hpp"

namespace swy::datatype {

// MPI_DATATYPE_NULL or MPI_OP_NULL, and a message, outside the time from MPI_Init or MPI_Session_init to MPI_Finalize.
MPI_Datatype extension_type(Element element);  // kFloat16, kBfloat16, kFloat8E4m3 or kFloat8E5m2
MPI_Op average_operator();

// Sessions give a process MPI's objects without MPI_Init (MPI 4.0 section 11.3). lifecycle says how many there are.
extern std::atomic<int> open_sessions;

// A program that has asked for none of them pays for this look.
[[gnu::visibility("hidden")]] extern std::atomic<bool> extensions_in_use;

MPI_Op find_operator(MPI_Op op, MPI_Datatype type, bool may_average);
bool is_average(MPI_Op op);
bool find_extension(MPI_Datatype type, ElementOf& element);

// The operator for the real MPI: `op` itself, but ours for a predefined one on a type of ours, the sum for MPIX_AVG
// where the call averages, and MPI_OP_NULL, which MPI reports as it reports an operator that a type does not have.
inline MPI_Op operator_for(MPI_Op op, MPI_Datatype type, bool may_average) {
    return extensions_in_use.load(std::memory_order_relaxed) ? find_operator(op, type, may_average) : op;
}
inline bool extended() {
    return extensions_in_use.load(std::memory_order_relaxed);
}
inline bool averages(MPI_Op op) {
    return extensions_in_use.load(std::memory_order_relaxed) && is_average(op);
}

// Divides `count` sums at `address` by the number of processes that they are sums over: in float for the types of ours,
// towards zero for integers.
void divide(void* address, std::size_t count, Element element, int processes);

// At the end of MPI in this process.
void release_extensions();

}  // namespace swy::datatype
