#include "nccl/mapping.hpp"

#include <array>

#include "device/device.hpp"
#include "nccl/library.hpp"

namespace swy::nccl {
namespace {

using datatype::Element;
using datatype::Operator;

struct TypeRow {
    Element element;
    ncclDataType_t type;
    std::size_t bytes;
    std::size_t per_element;
};

// Numbers of NCCL's binary interface: the headers at build time may be older.
constexpr auto kFloat8E4m3 = static_cast<ncclDataType_t>(10), kFloat8E5m2 = static_cast<ncclDataType_t>(11);

// NCCL's types (NCCL guide, "ncclDataType_t"). 16-bit integers, logicals and long double are not among them.
constexpr std::array kTypes{
    TypeRow{Element::kInt8, ncclInt8, 1, 1},          TypeRow{Element::kUint8, ncclUint8, 1, 1},
    TypeRow{Element::kInt32, ncclInt32, 4, 1},        TypeRow{Element::kUint32, ncclUint32, 4, 1},
    TypeRow{Element::kInt64, ncclInt64, 8, 1},        TypeRow{Element::kUint64, ncclUint64, 8, 1},
    TypeRow{Element::kFloat16, ncclFloat16, 2, 1},    TypeRow{Element::kBfloat16, ncclBfloat16, 2, 1},
    TypeRow{Element::kFloat32, ncclFloat32, 4, 1},    TypeRow{Element::kFloat64, ncclFloat64, 8, 1},
    TypeRow{Element::kComplex32, ncclFloat32, 4, 2},  TypeRow{Element::kComplex64, ncclFloat64, 8, 2},
    TypeRow{Element::kFloat8E4m3, kFloat8E4m3, 1, 1}, TypeRow{Element::kFloat8E5m2, kFloat8E5m2, 1, 1},
};

struct OperatorRow {
    Operator op;
    ncclRedOp_t nccl;
    bool complex;  // correct when the real and imaginary parts are reduced as if they were two numbers
};

constexpr std::array kOperators{
    OperatorRow{Operator::kSum, ncclSum, true},  OperatorRow{Operator::kProd, ncclProd, false},
    OperatorRow{Operator::kMin, ncclMin, false}, OperatorRow{Operator::kMax, ncclMax, false},
    OperatorRow{Operator::kAvg, ncclAvg, true},
};

// Tells whether NCCL reduces 8-bit floats: since 2.24, on GPUs of compute capability 9.0 and later. On which of the
// process's devices the call is, is not known yet; mixed nodes are rare.
bool reduces_float8() {
    static const bool can = [] {
        for (int device = 0; device < device::device_count(); ++device)
            if (device::compute_capability(device) < 90)
                return false;
        return load() != nullptr && version() >= 22400;
    }();
    return can;
}

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
    if (type == nullptr || (datatype::is_float8(element) && !reduces_float8())) {
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

}  // namespace swy::nccl
