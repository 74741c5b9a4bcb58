#include "datatype/element.hpp"

#include <iterator>

#include "datatype/extension.hpp"
#include "datatype/predefined.hpp"
#include "real.hpp"

namespace swy::datatype {
namespace {

struct OperatorRow {
    MPI_Op op;
    Operator meaning;
};

ElementOf of_f90(MPI_Datatype type) {
    int integers = 0, addresses = 0, types = 0, combiner = MPI_COMBINER_NAMED;
    if (type == MPI_DATATYPE_NULL ||
        real::Type_get_envelope(type, &integers, &addresses, &types, &combiner) != MPI_SUCCESS)
        return {};
    const auto bytes = static_cast<std::uint8_t>(size_of(type));
    switch (combiner) {
        case MPI_COMBINER_F90_REAL:
            return {bytes == 4 ? Element::kFloat32 : bytes == 8 ? Element::kFloat64 : Element::kNone, bytes};
        case MPI_COMBINER_F90_COMPLEX:
            return {bytes == 8 ? Element::kComplex32 : bytes == 16 ? Element::kComplex64 : Element::kNone, bytes};
        case MPI_COMBINER_F90_INTEGER:
            return {bytes == 1   ? Element::kInt8
                    : bytes == 2 ? Element::kInt16
                    : bytes == 4 ? Element::kInt32
                    : bytes == 8 ? Element::kInt64
                                 : Element::kNone,
                    bytes};
        default:
            return {};
    }
}

bool is_integer(Element element) {
    return element >= Element::kInt8 && element <= Element::kUint64;
}
bool is_float(Element element) {
    return element >= Element::kFloat16 && element <= Element::kLongDouble;
}
bool is_complex(Element element) {
    return element >= Element::kComplex32 && element <= Element::kComplexLongDouble;
}

}  // namespace

ElementOf element_of(MPI_Datatype type) {
    if (const Predefined* known = find_predefined(type))
        return known->element;
    if (ElementOf ours; extensions_in_use.load(std::memory_order_relaxed) && find_extension(type, ours))
        return ours;
    return of_f90(type);
}

Operator operator_of(MPI_Op op) {
    static const OperatorRow table[] = {
        {MPI_SUM, Operator::kSum},         {MPI_PROD, Operator::kProd},     {MPI_MIN, Operator::kMin},
        {MPI_MAX, Operator::kMax},         {MPI_LAND, Operator::kLand},     {MPI_LOR, Operator::kLor},
        {MPI_LXOR, Operator::kLxor},       {MPI_BAND, Operator::kBand},     {MPI_BOR, Operator::kBor},
        {MPI_BXOR, Operator::kBxor},       {MPI_MINLOC, Operator::kMinloc}, {MPI_MAXLOC, Operator::kMaxloc},
        {MPI_REPLACE, Operator::kReplace}, {MPI_NO_OP, Operator::kNoOp},    {MPI_OP_NULL, Operator::kNull},
    };
    for (const OperatorRow& row : table)
        if (row.op == op)
            return row.meaning;
    return averages(op) ? Operator::kAvg : Operator::kUser;
}

bool defined(Operator op, Element element) {
    switch (op) {
        case Operator::kUser:
            return true;
        case Operator::kSum:
        case Operator::kProd:
        case Operator::kAvg:
            return is_integer(element) || is_float(element) || is_complex(element);
        case Operator::kMin:
        case Operator::kMax:
            return is_integer(element) || is_float(element);
        case Operator::kLand:
        case Operator::kLor:
        case Operator::kLxor:
            return is_integer(element) || element == Element::kLogical;
        case Operator::kBand:
        case Operator::kBor:
        case Operator::kBxor:
            return is_integer(element) || element == Element::kByte;
        case Operator::kMinloc:  // defined on pair types, which are no Element
        case Operator::kMaxloc:
        case Operator::kReplace:  // for MPI_Accumulate only
        case Operator::kNoOp:
        case Operator::kNull:
            break;
    }
    return false;
}

std::string_view name(Element element) {
    static constexpr std::string_view kNames[] = {"none",
                                                  "int8",
                                                  "int16",
                                                  "int32",
                                                  "int64",
                                                  "uint8",
                                                  "uint16",
                                                  "uint32",
                                                  "uint64",
                                                  "float16",
                                                  "bfloat16",
                                                  "float8e4m3",
                                                  "float8e5m2",
                                                  "float32",
                                                  "float64",
                                                  "long double",
                                                  "complex of float32",
                                                  "complex of float64",
                                                  "complex of long double",
                                                  "logical",
                                                  "byte"};
    static_assert(std::size(kNames) == static_cast<std::size_t>(Element::kByte) + 1);
    const auto row = static_cast<std::size_t>(element);
    return row < std::size(kNames) ? kNames[row] : kNames[0];
}

std::string_view name(Operator op) {
    static constexpr std::string_view kNames[] = {"user",   "sum",    "prod",    "min",   "max", "avg",
                                                  "land",   "lor",    "lxor",    "band",  "bor", "bxor",
                                                  "minloc", "maxloc", "replace", "no_op", "null"};
    static_assert(std::size(kNames) == static_cast<std::size_t>(Operator::kNull) + 1);
    const auto row = static_cast<std::size_t>(op);
    return row < std::size(kNames) ? kNames[row] : "user";
}

}  // namespace swy::datatype
