// MPI's predefined datatypes and operators by their arithmetic: one table row for each type and each operator. src/nccl
// maps these to NCCL's; the report prints them.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <string_view>

namespace swy::datatype {

enum class Element : std::uint8_t {
    kNone,  // not arithmetic of one number: pair types, packed, derived
    kInt8,
    kInt16,
    kInt32,
    kInt64,
    kUint8,
    kUint16,
    kUint32,
    kUint64,
    kFloat16,
    kBfloat16,
    kFloat8E4m3,
    kFloat8E5m2,
    kFloat32,
    kFloat64,
    kLongDouble,
    kComplex32,
    kComplex64,
    kComplexLongDouble,  // of float, double, long double
    kLogical,            // C bool, C++ bool, Fortran LOGICAL of its size
    kByte,               // MPI_BYTE, MPI_PACKED: moved, and reduced bitwise only
};

enum class Operator : std::uint8_t {
    kUser,
    kSum,
    kProd,
    kMin,
    kMax,
    kAvg,  // MPIX_AVG
    kLand,
    kLor,
    kLxor,
    kBand,
    kBor,
    kBxor,
    kMinloc,
    kMaxloc,
    kReplace,
    kNoOp,
    kNull,
};

constexpr bool is_float8(Element element) {
    return element == Element::kFloat8E4m3 || element == Element::kFloat8E5m2;
}

struct ElementOf {
    Element element = Element::kNone;
    std::uint8_t bytes = 0;  // of one element
};

// The element of a predefined type; {kNone, 0} for derived and null types. All predefined C, C++ and Fortran types of
// MPI 3.1 have a row, and so have the extensions' types.
ElementOf element_of(MPI_Datatype predefined);
Operator operator_of(MPI_Op op);

// Tells whether MPI defines `op` on `element` (MPI 4.0 section 6.9.2). Always true for user operators.
bool defined(Operator op, Element element);

std::string_view name(Element element);  // "float64"; "none" for kNone
std::string_view name(Operator op);      // "sum"; "user"

}  // namespace swy::datatype
