// Values and buffers of places for the tests of the extension's calls on several buffers of a process: elements of four
// datatypes, each a pair of numbers, in memory of any kind on any device; and what MPI says must come out, by
// arithmetic.
#pragma once

#include <mpi.h>

#include <cstring>
#include <memory>
#include <vector>

#include "../gpu.hpp"

namespace place {

// Of what an element holds, a type without a second number has the first alone.
struct Value {
    int first = 0, second = 0;
    bool operator==(const Value&) const = default;
};
using Values = std::vector<Value>;

enum class Type { kInt, kDouble, kPair, kStrided };
inline constexpr int kTypes = 4;
inline constexpr int kGap = -7777;

// The handles; `strided` has its two numbers in the first and third of four.
inline MPI_Datatype handle(Type type) {
    static MPI_Datatype pair = MPI_DATATYPE_NULL, strided = MPI_DATATYPE_NULL;
    if (pair == MPI_DATATYPE_NULL) {
        MPI_Type_contiguous(2, MPI_INT, &pair);
        MPI_Type_commit(&pair);
        MPI_Datatype vector = MPI_DATATYPE_NULL;
        MPI_Type_vector(2, 1, 2, MPI_INT, &vector);
        MPI_Type_create_resized(vector, 0, 4 * sizeof(int), &strided);
        MPI_Type_commit(&strided);
        MPI_Type_free(&vector);
    }
    const MPI_Datatype all[] = {MPI_INT, MPI_DOUBLE, pair, strided};
    return all[static_cast<int>(type)];
}
inline std::size_t bytes_of(Type type) {
    constexpr std::size_t kBytes[] = {sizeof(int), sizeof(double), 2 * sizeof(int), 4 * sizeof(int)};
    return kBytes[static_cast<int>(type)];
}
inline bool has_second(Type type) {
    return type >= Type::kPair;
}

inline std::vector<std::byte> encode(Type type, const Values& values) {
    std::vector<std::byte> bytes(values.size() * bytes_of(type));
    for (std::size_t i = 0; i < values.size(); ++i) {
        const double real = values[i].first;
        const int gapped[4] = {values[i].first, kGap, values[i].second, kGap};
        const int pair[2] = {values[i].first, values[i].second};
        const void* const from[] = {pair, &real, pair, gapped};
        std::memcpy(bytes.data() + i * bytes_of(type), from[static_cast<int>(type)], bytes_of(type));
    }
    return bytes;
}

// `damaged` counts gaps that have been written to.
inline Values decode(Type type, const std::vector<std::byte>& bytes, int& damaged) {
    Values values(bytes.size() / bytes_of(type));
    for (std::size_t i = 0; i < values.size(); ++i) {
        const std::byte* from = bytes.data() + i * bytes_of(type);
        int whole[4] = {};
        double real = 0;
        if (type == Type::kDouble) {
            std::memcpy(&real, from, sizeof real);
            values[i].first = static_cast<int>(real);
            continue;
        }
        std::memcpy(whole, from, bytes_of(type));
        values[i] = {whole[0], type == Type::kPair ? whole[1] : whole[2]};
        if (type == Type::kInt)
            values[i].second = 0;
        if (type == Type::kStrided)
            damaged += (whole[1] != kGap) + (whole[3] != kGap);
    }
    return values;
}

// The maps x -> first * x + second, modulo a prime, one after the other: associative, and not commutative.
inline constexpr long kPrime = 10007;
inline Value after(const Value& left, const Value& right) {
    return {static_cast<int>(1L * left.first * right.first % kPrime),
            static_cast<int>((1L * left.first * right.second + left.second) % kPrime)};
}

inline void compose(void* in, void* inout, int* length, MPI_Datatype*) {
    auto* left = static_cast<Value*>(in);
    auto* right = static_cast<Value*>(inout);
    for (int i = 0; i < *length; ++i)
        right[i] = after(left[i], right[i]);
}

enum class Op { kSum, kMax, kLogicalOr, kCompose };
inline MPI_Op handle(Op op) {
    static MPI_Op own = MPI_OP_NULL;
    if (own == MPI_OP_NULL)
        MPI_Op_create(compose, 0, &own);
    const MPI_Op all[] = {MPI_SUM, MPI_MAX, MPI_LOR, own};
    return all[static_cast<int>(op)];
}
inline Value apply(Op op, const Value& a, const Value& b) {
    switch (op) {
        case Op::kSum:
            return {a.first + b.first, a.second + b.second};
        case Op::kMax:
            return {std::max(a.first, b.first), std::max(a.second, b.second)};
        case Op::kLogicalOr:
            return {a.first != 0 || b.first != 0, 0};
        case Op::kCompose:
            return after(a, b);
    }
    return {};
}

// A buffer on a device or the host, remembered with what it held.
class Buffer {
  public:
    Buffer(gpu::Kind kind, int device, Type type, Values content) : type_(type), content_(std::move(content)) {
        if (kind != gpu::Kind::kHost)
            gpu::Driver::get().use(device);
        memory_ = std::make_unique<gpu::Memory>(kind, encode(type, content_));
        if (kind != gpu::Kind::kHost)  // else the copy may be under way when another device's context is read from
            gpu::Driver::get().synchronize();
    }
    void* address() const { return memory_->address(); }
    const Values& content() const { return content_; }

    // How many elements differ from what is expected.
    int compare(const Values& expected) const {
        int wrong = 0;
        const Values found = decode(type_, memory_->read(), wrong);
        for (std::size_t i = 0; i < expected.size(); ++i) {
            const bool equal =
                found[i].first == expected[i].first && (!has_second(type_) || found[i].second == expected[i].second);
            wrong += equal ? 0 : 1;
        }
        return wrong;
    }

  private:
    Type type_;
    Values content_;
    std::unique_ptr<gpu::Memory> memory_;
};

}  // namespace place
