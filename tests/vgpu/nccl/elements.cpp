#include "elements.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <numeric>

namespace vgpu::test {
namespace {

template <typename T>
void put(Bytes& bytes, std::size_t i, T value) {
    std::memcpy(bytes.data() + i * sizeof(T), &value, sizeof value);
}
template <typename T>
T take(const Bytes& bytes, std::size_t i) {
    T value;
    std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof value);
    return value;
}

// Calls `f` with a value of the type that stands for the datatype in C++.
template <typename F>
void with_type(ncclDataType_t type, F f) {
    switch (type) {
        case ncclInt8:
            return f(std::int8_t{});
        case ncclUint8:
            return f(std::uint8_t{});
        case ncclInt32:
            return f(std::int32_t{});
        case ncclUint32:
            return f(std::uint32_t{});
        case ncclInt64:
            return f(std::int64_t{});
        case ncclUint64:
            return f(std::uint64_t{});
        case ncclFloat16:
            return f(__half{});
        case ncclFloat32:
            return f(float{});
        case ncclFloat64:
            return f(double{});
        case ncclBfloat16:
            return f(__nv_bfloat16{});
        case ncclFloat8e4m3:
            return f(__nv_fp8_e4m3{});
        case ncclFloat8e5m2:
            return f(__nv_fp8_e5m2{});
        default:
            return;
    }
}

template <typename T>
T from_double(double value) {
    if constexpr (std::is_arithmetic_v<T>)
        return static_cast<T>(value);
    else
        return T(static_cast<float>(value));
}
template <typename T>
double to_double(T value) {
    if constexpr (std::is_arithmetic_v<T>)
        return static_cast<double>(value);
    else
        return static_cast<double>(static_cast<float>(value));
}

}  // namespace

std::size_t bytes_of(ncclDataType_t type) {
    std::size_t size = 0;
    with_type(type, [&](auto value) { size = sizeof value; });
    return size;
}

bool is_integer(ncclDataType_t type) {
    return type <= ncclUint64;
}

double epsilon(ncclDataType_t type) {
    switch (type) {
        case ncclFloat16:
            return std::ldexp(1, -10);
        case ncclFloat32:
            return std::ldexp(1, -23);
        case ncclFloat64:
            return std::ldexp(1, -52);
        case ncclBfloat16:
            return std::ldexp(1, -7);
        case ncclFloat8e4m3:
            return std::ldexp(1, -3);
        case ncclFloat8e5m2:
            return std::ldexp(1, -2);
        default:
            return 0;
    }
}

Bytes encode(ncclDataType_t type, const std::vector<double>& values) {
    Bytes bytes(values.size() * bytes_of(type));
    with_type(type, [&](auto sample) {
        for (std::size_t i = 0; i < values.size(); ++i)
            put(bytes, i, from_double<decltype(sample)>(values[i]));
    });
    return bytes;
}

std::vector<double> decode(ncclDataType_t type, const Bytes& bytes) {
    std::vector<double> values(bytes.size() / bytes_of(type));
    with_type(type, [&](auto sample) {
        for (std::size_t i = 0; i < values.size(); ++i)
            values[i] = to_double(take<decltype(sample)>(bytes, i));
    });
    return values;
}

double reduce(ncclDataType_t type, ncclRedOp_t op, const std::vector<double>& values) {
    const double sum = std::accumulate(values.begin(), values.end(), 0.0);
    switch (op) {
        case ncclProd:
            return std::accumulate(values.begin(), values.end(), 1.0, [](double a, double b) { return a * b; });
        case ncclMax:
            return *std::max_element(values.begin(), values.end());
        case ncclMin:
            return *std::min_element(values.begin(), values.end());
        case ncclAvg: {
            const double mean = sum / static_cast<double>(values.size());
            return is_integer(type) ? std::trunc(mean) : mean;
        }
        default:
            return sum;
    }
}

}  // namespace vgpu::test
