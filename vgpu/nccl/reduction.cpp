#include "vgpu/nccl/reduction.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>
#include <vector>

#include "vgpu/nccl/call.hpp"
#include "vgpu/nccl/narrow_float.hpp"

namespace vgpu::nccl {
namespace {

// The types in which elements of each datatype are stored (Stored) and computed (Value).
template <typename T>
struct Plain {
    using Stored = T;
    using Value = T;
    static Value load(Stored stored) { return stored; }
    static Stored store(Value value) { return value; }
};

template <typename Format, typename Bits, bool Saturate>
struct Narrow {
    using Stored = Bits;
    using Value = float;
    static Value load(Stored stored) {
        static const std::vector<float>& kWide = *new std::vector<float>(table());
        return kWide[stored];
    }
    static Stored store(Value value) { return static_cast<Stored>(Format::narrow(value, Saturate)); }

  private:
    static std::vector<float> table() {
        std::vector<float> wide(std::size_t{std::numeric_limits<Bits>::max()} + 1);
        for (std::size_t bits = 0; bits < wide.size(); ++bits)
            wide[bits] = Format::widen(static_cast<std::uint32_t>(bits));
        return wide;
    }
};

using HalfElement = Narrow<Half, std::uint16_t, false>;
using Bfloat16Element = Narrow<Bfloat16, std::uint16_t, false>;
using E4m3Element = Narrow<Fp8E4m3, std::uint8_t, true>;  // CUDA's conversions to fp8 saturate
using E5m2Element = Narrow<Fp8E5m2, std::uint8_t, true>;

// Signed overflow wraps on a GPU; in C++ only unsigned arithmetic does.
template <typename V, typename F>
V wrapping(V a, V b, F combine) {
    if constexpr (std::is_integral_v<V>) {
        using Wide = std::conditional_t<(sizeof(V) < sizeof(unsigned)), unsigned, std::make_unsigned_t<V>>;
        return static_cast<V>(combine(static_cast<Wide>(a), static_cast<Wide>(b)));
    } else {
        return combine(a, b);
    }
}

struct Sum {
    template <typename V>
    static V combine(V a, V b) {
        return wrapping(a, b, [](auto x, auto y) { return x + y; });
    }
};
struct Product {
    template <typename V>
    static V combine(V a, V b) {
        return wrapping(a, b, [](auto x, auto y) { return x * y; });
    }
};
struct Maximum {
    template <typename V>
    static V combine(V a, V b) {
        if constexpr (std::is_floating_point_v<V>)
            return std::fmax(a, b);
        else
            return std::max(a, b);
    }
};
struct Minimum {
    template <typename V>
    static V combine(V a, V b) {
        if constexpr (std::is_floating_point_v<V>)
            return std::fmin(a, b);
        else
            return std::min(a, b);
    }
};

template <typename V>
V value_of(const Scalar& scalar) {
    V value;
    std::memcpy(&value, scalar.bytes, sizeof value);
    return value;
}

enum class Before { Nothing, Multiply };
enum class After { Nothing, Divide };

template <typename Element, typename Op, Before kBefore, After kAfter>
struct Steps {
    using Stored = typename Element::Stored;
    using Value = typename Element::Value;

    static Value load(const Stored* elements, std::size_t i, [[maybe_unused]] Value factor) {
        const Value value = Element::load(elements[i]);
        if constexpr (kBefore == Before::Multiply)
            return Product::combine(value, factor);
        return value;
    }
    static void first(void* accumulator, const void* elements, std::size_t count, const Scalar& scalar) {
        auto* out = static_cast<Value*>(accumulator);
        const auto* in = static_cast<const Stored*>(elements);
        const Value factor = value_of<Value>(scalar);
        for (std::size_t i = 0; i < count; ++i)
            out[i] = load(in, i, factor);
    }
    static void next(void* accumulator, const void* elements, std::size_t count, const Scalar& scalar) {
        auto* out = static_cast<Value*>(accumulator);
        const auto* in = static_cast<const Stored*>(elements);
        const Value factor = value_of<Value>(scalar);
        for (std::size_t i = 0; i < count; ++i)
            out[i] = Op::template combine<Value>(out[i], load(in, i, factor));
    }
    static void write(void* elements, const void* accumulator, std::size_t count, const Scalar& scalar) {
        auto* out = static_cast<Stored*>(elements);
        const auto* in = static_cast<const Value*>(accumulator);
        [[maybe_unused]] const Value divisor = value_of<Value>(scalar);
        for (std::size_t i = 0; i < count; ++i) {
            if constexpr (kAfter == After::Divide)
                out[i] = Element::store(static_cast<Value>(in[i] / divisor));
            else
                out[i] = Element::store(in[i]);
        }
    }
};

template <typename Element, typename Op, Before kBefore = Before::Nothing, After kAfter = After::Nothing>
Reduction steps() {
    using S = Steps<Element, Op, kBefore, kAfter>;
    return {sizeof(typename Element::Stored), sizeof(typename Element::Value), S::first, S::next, S::write, {}};
}

template <typename V>
Scalar scalar_of(V value) {
    Scalar scalar;
    std::memcpy(scalar.bytes, &value, sizeof value);
    return scalar;
}

// The operators of one datatype.
template <typename Element>
Reduction for_type(int op, int ranks) {
    using Value = typename Element::Value;
    Reduction result;
    switch (op) {
        case ncclSum:
            return steps<Element, Sum>();
        case ncclProd:
            return steps<Element, Product>();
        case ncclMax:
            return steps<Element, Maximum>();
        case ncclMin:
            return steps<Element, Minimum>();
        case ncclAvg:
            if constexpr (std::is_integral_v<Value>) {
                result = steps<Element, Sum, Before::Nothing, After::Divide>();
                result.scalar = scalar_of(static_cast<Value>(ranks));
            } else {
                result = steps<Element, Sum, Before::Multiply>();
                result.scalar = scalar_of(Value{1} / static_cast<Value>(ranks));
            }
            return result;
        default:
            return result;
    }
}

template <typename Element>
void multiply_elements(void* result, const void* elements, std::size_t count, const void* scalar) {
    using Stored = typename Element::Stored;
    Stored factor;
    std::memcpy(&factor, scalar, sizeof factor);
    const auto* in = static_cast<const Stored*>(elements);
    for (std::size_t i = 0; i < count; ++i)
        static_cast<Stored*>(result)[i] = Element::store(Product::combine(Element::load(in[i]), Element::load(factor)));
}

struct Row {
    Reduction (*reduction)(int op, int ranks);
    void (*multiply)(void* result, const void* elements, std::size_t count, const void* scalar);
};

template <typename Element>
constexpr Row row() {
    return {for_type<Element>, multiply_elements<Element>};
}

constexpr std::array<Row, ncclNumTypes> kRows{
    row<Plain<std::int8_t>>(),  row<Plain<std::uint8_t>>(),  row<Plain<std::int32_t>>(), row<Plain<std::uint32_t>>(),
    row<Plain<std::int64_t>>(), row<Plain<std::uint64_t>>(), row<HalfElement>(),         row<Plain<float>>(),
    row<Plain<double>>(),       row<Bfloat16Element>(),      row<E4m3Element>(),         row<E5m2Element>()};

}  // namespace

Reduction reduction(ncclDataType_t type, int op, int ranks) {
    return kRows[static_cast<std::size_t>(type)].reduction(op, ranks);
}

void multiply(ncclDataType_t type, void* result, const void* elements, std::size_t count, const void* scalar) {
    kRows[static_cast<std::size_t>(type)].multiply(result, elements, count, scalar);
}

}  // namespace vgpu::nccl
