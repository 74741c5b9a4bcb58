// All predefined datatypes with data in them, by what a number of theirs is to C. Tests only.
#pragma once

#include <mpi.h>

#include <complex>
#include <cstdint>
#include <cstring>
#include <vector>

namespace predefined {

enum class Kind { kInteger, kFloat, kComplex, kLogical, kBytes, kPair };

struct Type {
    const char* name;
    MPI_Datatype handle;
    Kind kind;
    std::size_t first = 0;  // of a pair: the bytes of its value; the location is behind it, as C aligns them

    std::size_t size() const {
        int bytes = 0;
        MPI_Type_size(handle, &bytes);
        return static_cast<std::size_t>(bytes);
    }
    std::size_t extent() const {
        MPI_Aint lower = 0, bytes = 0;
        MPI_Type_get_extent(handle, &lower, &bytes);
        return static_cast<std::size_t>(bytes);
    }
};

// Those of MPI 3.1 sections 3.2.2, 5.9.2, 5.9.4 and 17.1.9 and, where the MPI at hand has them, the optional ones. A
// type that it lacks has size 0 and is left out.
inline std::vector<Type> types() {
#define TYPE(handle, kind, ...) {#handle, handle, Kind::kind, ##__VA_ARGS__}
    std::vector<Type> all = {
        TYPE(MPI_CHAR, kInteger),
        TYPE(MPI_SIGNED_CHAR, kInteger),
        TYPE(MPI_UNSIGNED_CHAR, kInteger),
        TYPE(MPI_SHORT, kInteger),
        TYPE(MPI_UNSIGNED_SHORT, kInteger),
        TYPE(MPI_INT, kInteger),
        TYPE(MPI_UNSIGNED, kInteger),
        TYPE(MPI_LONG, kInteger),
        TYPE(MPI_UNSIGNED_LONG, kInteger),
        TYPE(MPI_LONG_LONG, kInteger),
        TYPE(MPI_UNSIGNED_LONG_LONG, kInteger),
        TYPE(MPI_WCHAR, kInteger),
        TYPE(MPI_INT8_T, kInteger),
        TYPE(MPI_INT16_T, kInteger),
        TYPE(MPI_INT32_T, kInteger),
        TYPE(MPI_INT64_T, kInteger),
        TYPE(MPI_UINT8_T, kInteger),
        TYPE(MPI_UINT16_T, kInteger),
        TYPE(MPI_UINT32_T, kInteger),
        TYPE(MPI_UINT64_T, kInteger),
        TYPE(MPI_AINT, kInteger),
        TYPE(MPI_OFFSET, kInteger),
        TYPE(MPI_COUNT, kInteger),
        TYPE(MPI_FLOAT, kFloat),
        TYPE(MPI_DOUBLE, kFloat),
        TYPE(MPI_LONG_DOUBLE, kFloat),
        TYPE(MPI_C_FLOAT_COMPLEX, kComplex),
        TYPE(MPI_C_DOUBLE_COMPLEX, kComplex),
        TYPE(MPI_C_LONG_DOUBLE_COMPLEX, kComplex),
        TYPE(MPI_CXX_FLOAT_COMPLEX, kComplex),
        TYPE(MPI_CXX_DOUBLE_COMPLEX, kComplex),
        TYPE(MPI_CXX_LONG_DOUBLE_COMPLEX, kComplex),
        TYPE(MPI_C_BOOL, kLogical),
        TYPE(MPI_CXX_BOOL, kLogical),
        TYPE(MPI_BYTE, kBytes),
        TYPE(MPI_PACKED, kBytes),
        TYPE(MPI_FLOAT_INT, kPair, sizeof(float)),
        TYPE(MPI_DOUBLE_INT, kPair, sizeof(double)),
        TYPE(MPI_LONG_INT, kPair, sizeof(long)),
        TYPE(MPI_SHORT_INT, kPair, sizeof(short)),
        TYPE(MPI_2INT, kPair, sizeof(int)),
        TYPE(MPI_LONG_DOUBLE_INT, kPair, sizeof(long double)),
        TYPE(MPI_CHARACTER, kInteger),
        TYPE(MPI_INTEGER, kInteger),
        TYPE(MPI_REAL, kFloat),
        TYPE(MPI_DOUBLE_PRECISION, kFloat),
        TYPE(MPI_COMPLEX, kComplex),
        TYPE(MPI_DOUBLE_COMPLEX, kComplex),
        TYPE(MPI_LOGICAL, kLogical),
        TYPE(MPI_2REAL, kPair, sizeof(float)),
        TYPE(MPI_2DOUBLE_PRECISION, kPair, sizeof(double)),
        TYPE(MPI_2INTEGER, kPair, sizeof(int)),
        TYPE(MPI_INTEGER1, kInteger),
        TYPE(MPI_INTEGER2, kInteger),
        TYPE(MPI_INTEGER4, kInteger),
        TYPE(MPI_INTEGER8, kInteger),
        TYPE(MPI_REAL4, kFloat),
        TYPE(MPI_REAL8, kFloat),
        TYPE(MPI_REAL16, kFloat),
        TYPE(MPI_COMPLEX8, kComplex),
        TYPE(MPI_COMPLEX16, kComplex),
        TYPE(MPI_COMPLEX32, kComplex),
        TYPE(MPI_LOGICAL1, kLogical),
        TYPE(MPI_LOGICAL2, kLogical),
        TYPE(MPI_LOGICAL4, kLogical),
        TYPE(MPI_LOGICAL8, kLogical),
    };
#undef TYPE
    std::erase_if(all, [](const Type& type) { return type.handle == MPI_DATATYPE_NULL || type.size() == 0; });
    return all;
}

namespace detail {

inline bool is_float(const Type& type) {
    return type.handle == MPI_FLOAT_INT || type.handle == MPI_DOUBLE_INT || type.handle == MPI_LONG_DOUBLE_INT ||
           type.handle == MPI_2REAL || type.handle == MPI_2DOUBLE_PRECISION;
}

inline void put_integer(std::byte* to, std::size_t bytes, int value) {
    const std::int64_t wide = value;
    std::memcpy(to, &wide, std::min(bytes, sizeof wide));
}

inline void put_float(std::byte* to, std::size_t bytes, int value, bool long_double) {
    const auto put = [&](auto number) { std::memcpy(to, &number, sizeof number); };
    if (bytes == 4)
        put(static_cast<float>(value));
    else if (bytes == 8)
        put(static_cast<double>(value));
    else if (long_double)
        put(static_cast<long double>(value));
    else
        put(static_cast<__float128>(value));
}

inline bool is_long_double(MPI_Datatype type) {
    return type == MPI_LONG_DOUBLE || type == MPI_C_LONG_DOUBLE_COMPLEX || type == MPI_CXX_LONG_DOUBLE_COMPLEX ||
           type == MPI_LONG_DOUBLE_INT;
}

}  // namespace detail

// Writes one element: a small number, which sums and products of a few keep exact.
inline void put(const Type& type, std::byte* to, int value, int location) {
    const std::size_t size = type.size();
    const bool wide = detail::is_long_double(type.handle);
    switch (type.kind) {
        case Kind::kInteger:
        case Kind::kBytes:
            return detail::put_integer(to, size, value);
        case Kind::kLogical:
            return detail::put_integer(to, size, value & 1);
        case Kind::kFloat:
            return detail::put_float(to, size, value, wide);
        case Kind::kComplex:
            detail::put_float(to, size / 2, value, wide);
            return detail::put_float(to + size / 2, size / 2, location % 3, wide);
        case Kind::kPair: {
            const std::size_t second = size - type.first;  // bytes of the location
            std::byte* behind = to + (type.first + second - 1) / second * second;
            if (!detail::is_float(type)) {
                detail::put_integer(to, type.first, value);
                return detail::put_integer(behind, second, location);
            }
            detail::put_float(to, type.first, value, wide);
            if (second == sizeof(int) && type.handle != MPI_2REAL)
                return detail::put_integer(behind, second, location);
            return detail::put_float(behind, second, location, false);
        }
    }
}

// The bytes of an element that hold something: an x87 number has ten.
inline std::vector<bool> significant(const Type& type) {
    std::vector<bool> bytes(type.extent(), true);
    const bool x87 = detail::is_long_double(type.handle) && sizeof(long double) == 16;
    if (x87)
        for (std::size_t part = 0; part + 16 <= bytes.size() && (part < type.size() || part == 0); part += 16)
            for (std::size_t i = 10; i < 16 && (type.kind != Kind::kPair || part == 0); ++i)
                bytes[part + i] = false;
    if (type.kind == Kind::kPair) {
        const std::size_t second = type.size() - type.first, behind = (type.first + second - 1) / second * second;
        for (std::size_t i = type.first; i < bytes.size(); ++i)
            if (i < behind || i >= behind + second)
                bytes[i] = false;
    }
    return bytes;
}

}  // namespace predefined
