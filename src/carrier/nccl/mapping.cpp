#include "carrier/nccl/mapping.hpp"

#include <array>

namespace swy::carrier::nccl {
namespace {

using datatype::Element;
using datatype::Operator;

struct TypeRow {
    Element element;
    ncclDataType_t type;
    std::size_t bytes;
    std::size_t per_element;
};

// NCCL guide, "ncclDataType_t". 16-bit integers, logicals and long double are not in it. The 8-bit floats need
// NCCL 2.24 and Hopper; MPI has no predefined type that maps to them.
constexpr std::array kTypes{
    TypeRow{Element::kInt8, ncclInt8, 1, 1},         TypeRow{Element::kUint8, ncclUint8, 1, 1},
    TypeRow{Element::kInt32, ncclInt32, 4, 1},       TypeRow{Element::kUint32, ncclUint32, 4, 1},
    TypeRow{Element::kInt64, ncclInt64, 8, 1},       TypeRow{Element::kUint64, ncclUint64, 8, 1},
    TypeRow{Element::kFloat16, ncclFloat16, 2, 1},   TypeRow{Element::kBfloat16, ncclBfloat16, 2, 1},
    TypeRow{Element::kFloat32, ncclFloat32, 4, 1},   TypeRow{Element::kFloat64, ncclFloat64, 8, 1},
    TypeRow{Element::kComplex32, ncclFloat32, 4, 2}, TypeRow{Element::kComplex64, ncclFloat64, 8, 2},
};

struct OperatorRow {
    Operator op;
    ncclRedOp_t nccl;
    bool complex;  // right when the real and imaginary parts are reduced as if they were two numbers
};

constexpr std::array kOperators{
    OperatorRow{Operator::kSum, ncclSum, true},
    OperatorRow{Operator::kProd, ncclProd, false},
    OperatorRow{Operator::kMin, ncclMin, false},
    OperatorRow{Operator::kMax, ncclMax, false},
};

}  // namespace

Reduction reduction(Operator op, Element element) {
    Reduction result;
    const TypeRow* type = nullptr;
    for (const TypeRow& row : kTypes)
        if (row.element == element)
            type = &row;
    const OperatorRow* operation = nullptr;
    for (const OperatorRow& row : kOperators)
        if (row.op == op)
            operation = &row;
    if (operation == nullptr || !datatype::defined(op, element)) {
        result.obstacle = Reason::kOperator;
        return result;
    }
    if (type == nullptr) {
        result.obstacle = Reason::kDatatype;
        return result;
    }
    if (type->per_element > 1 && !operation->complex) {
        result.obstacle = Reason::kOperator;
        return result;
    }
    result.type = type->type;
    result.op = operation->nccl;
    result.type_bytes = type->bytes;
    result.per_element = type->per_element;
    return result;
}

}  // namespace swy::carrier::nccl
