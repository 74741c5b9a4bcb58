#include "datatype/reduction.hpp"

#include <algorithm>
#include <iterator>

#include "datatype/element.hpp"
#include "datatype/layout.hpp"
#include "datatype/predefined.hpp"

namespace swy::datatype {
namespace {

struct Size {
    std::size_t bytes, alignment;
};
#define SWY_REDUCE_TYPE(Name, name, Type) {sizeof(Type), alignof(Type)},
constexpr Size kSizes[] = {
#include "datatype/reduce_types.def"
};
#undef SWY_REDUCE_TYPE

struct PairRow {
    MPI_Datatype type;
    ReduceType pair;
};

// Finds a pair type. Fortran's integers and reals are identified by their size: a compiler option may double them.
bool find_pair(MPI_Datatype type, ReduceType& found) {
    const PairRow table[] = {
        {MPI_FLOAT_INT, ReduceType::kFloatInt}, {MPI_DOUBLE_INT, ReduceType::kDoubleInt},
        {MPI_LONG_INT, ReduceType::kLongInt},   {MPI_SHORT_INT, ReduceType::kShortInt},
        {MPI_2INT, ReduceType::kIntInt},        {MPI_2INTEGER, ReduceType::kIntInt},
        {MPI_2REAL, ReduceType::kFloatFloat},   {MPI_2DOUBLE_PRECISION, ReduceType::kDoubleDouble},
    };
    for (const PairRow& row : table)
        if (row.type == type) {
            found = row.pair;
            return true;
        }
    return false;
}

bool find_number(ElementOf element, ReduceType& found) {
    const bool whole = element.element == Element::kLogical || element.element == Element::kByte;
    switch (element.element) {
        case Element::kComplex32:
            found = ReduceType::kComplex32;
            return true;
        case Element::kComplex64:
            found = ReduceType::kComplex64;
            return true;
        default:
            break;
    }
    if (whole) {
        found = element.bytes == 1   ? ReduceType::kUint8
                : element.bytes == 2 ? ReduceType::kUint16
                : element.bytes == 4 ? ReduceType::kUint32
                                     : ReduceType::kUint64;
        return true;
    }
    if (element.element < Element::kInt8 || element.element > Element::kFloat64)
        return false;
    found = static_cast<ReduceType>(static_cast<int>(element.element) - static_cast<int>(Element::kInt8));
    return true;
}
static_assert(static_cast<int>(ReduceType::kFloat64) ==
              static_cast<int>(Element::kFloat64) - static_cast<int>(Element::kInt8));

// Tells whether the type is one of Fortran's integers, or made by MPI_Type_create_f90_integer. MPI defines logical
// operators on C's integers, not on Fortran's (MPI 4.0 section 6.9.2).
bool is_integer_of_fortran(MPI_Datatype type) {
    const MPI_Datatype table[] = {
        MPI_INTEGER,
#ifdef MPI_INTEGER1
        MPI_INTEGER1,
#endif
#ifdef MPI_INTEGER2
        MPI_INTEGER2,
#endif
#ifdef MPI_INTEGER4
        MPI_INTEGER4,
#endif
#ifdef MPI_INTEGER8
        MPI_INTEGER8,
#endif
    };
    return std::find(std::begin(table), std::end(table), type) != std::end(table) || find_predefined(type) == nullptr;
}

bool find_operator(Operator op, Combine& found) {
    if (op >= Operator::kSum && op <= Operator::kMax)
        found = static_cast<Combine>(static_cast<int>(op) - static_cast<int>(Operator::kSum));
    else if (op >= Operator::kLand && op <= Operator::kMaxloc)
        found = static_cast<Combine>(static_cast<int>(op) - static_cast<int>(Operator::kLand) +
                                     static_cast<int>(Combine::kLand));
    else
        return false;
    return true;
}
static_assert(static_cast<int>(Combine::kMax) == static_cast<int>(Operator::kMax) - static_cast<int>(Operator::kSum));
static_assert(static_cast<int>(Combine::kMaxloc) - static_cast<int>(Combine::kLand) ==
              static_cast<int>(Operator::kMaxloc) - static_cast<int>(Operator::kLand));

}  // namespace

bool find_reduction(MPI_Datatype type, MPI_Op op, Reduction& found) {
    if (!find_operator(operator_of(op), found.op))
        return false;
    const bool logical = found.op >= Combine::kLand && found.op <= Combine::kLxor;
    if (logical && is_integer_of_fortran(type))
        return false;
    const bool location = found.op == Combine::kMinloc || found.op == Combine::kMaxloc;
    const ElementOf element = element_of(type);
    if (location ? !find_pair(type, found.type)
                 : !defined(operator_of(op), element.element) || !find_number(element, found.type))
        return false;
    const Size& size = kSizes[static_cast<std::size_t>(found.type)];
    found.bytes = size.bytes;
    found.alignment = size.alignment;
    return layout_of(type)->extent == static_cast<MPI_Aint>(size.bytes);
}

}  // namespace swy::datatype
