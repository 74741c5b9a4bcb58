// launch: -n 1 --gpus 2 --relinked
// launch: -n 1 --gpus 2 --relinked -x VGPU_FAULTS=cuModuleLoadDataEx=CUDA_ERROR_NO_BINARY_FOR_GPU
//
// MPI_Reduce_local of random numbers, of every predefined type and the extension's with every predefined operator, in
// memory of every kind: bit for bit what it makes of the same numbers in host memory, and the same error where MPI has
// no such reduction. The reference is MPI on host memory (for the extension's types arithmetic checks that, see
// extension.cpp). By kernels where there are some (reduce_local.test looks for that), else staged.
#include <mpi.h>
#include <mpix_switchyard.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <random>

#include "../../random_seed.hpp"
#include "../gpu.hpp"
#include "predefined.hpp"

namespace {

using predefined::Kind;
using predefined::Type;

std::mt19937 draw;
int failures = 0;
long legal = 0;

struct Operator {
    const char* name;
    MPI_Op handle;
};

int below(int limit) {
    return std::uniform_int_distribution<int>(0, limit - 1)(draw);
}

// Numbers of all magnitudes with what is special among them. Of two that are no numbers, or zeros of both signs, MPI
// does not say which is the larger: for comparisons there are none of these.
template <typename Number>
Number number(bool compared) {
    constexpr double kSpecial[] = {0.0, -0.0, INFINITY, -INFINITY, NAN, 1e-310, 1e-40, 1e308, 3e38, -1.0};
    if (compared)
        return static_cast<Number>(below(2) != 0 ? below(5) - 2 : std::ldexp(below(2000) - 1000 + 0.5, below(20)));
    if (below(4) == 0)
        return static_cast<Number>(kSpecial[below(std::size(kSpecial))]);
    return static_cast<Number>(std::ldexp(below(1 << 30) - (1 << 29) + 0.125, below(120) - 60));
}

void put_number(std::byte* to, std::size_t bytes, bool long_double, bool compared) {
    const auto put = [&](auto value) { std::memcpy(to, &value, sizeof value); };
    if (bytes == 4)
        put(number<float>(compared));
    else if (bytes == 8)
        put(number<double>(compared));
    else if (long_double)
        put(number<long double>(compared));
    else
        put(static_cast<__float128>(number<double>(compared)));
}

void put_bits(std::byte* to, std::size_t bytes) {
    const bool few = below(4) == 0;  // so that values are equal now and then
    for (std::size_t i = 0; i < bytes; ++i)
        to[i] = static_cast<std::byte>(few ? (i == 0 ? below(3) : 0) : below(256));
}

// Where Open MPI's own answer is not the standard's, its numbers stay where both agree: its vector code (4.1.4, AVX)
// does not wrap sums of 8 and 16 bits around but ends at the largest number, and compares MPI_UNSIGNED_LONG as signed.
void avoid_open_mpi(const Type& type, MPI_Op op, std::byte* to) {
    const std::size_t size = type.size();
    if (type.kind == Kind::kInteger && size <= 2 && op == MPI_SUM) {
        std::memset(to, 0, size);
        to[0] = static_cast<std::byte>(below(60));
    }
    if ((type.handle == MPI_UNSIGNED_LONG || type.handle == MPI_OFFSET) && (op == MPI_MIN || op == MPI_MAX))
        to[size - 1] &= std::byte{0x7f};
}

// One element, which is the extension's where `narrow` says so: the largest bits that are a number.
void put(const Type& type, unsigned narrow, std::byte* to, bool compared) {
    const std::size_t size = type.size();
    const bool wide = predefined::detail::is_long_double(type.handle);
    if (narrow != 0) {
        const auto bits = static_cast<std::uint16_t>(
            1 + static_cast<unsigned>(below(static_cast<int>(narrow)) | below(2) << (8 * size - 1)));
        std::memcpy(to, &bits, size);
        return;
    }
    switch (type.kind) {
        case Kind::kInteger:
        case Kind::kBytes:
            return put_bits(to, size);
        case Kind::kLogical:
            std::memset(to, 0, size);
            to[0] = static_cast<std::byte>(below(2));
            return;
        case Kind::kFloat:
            return put_number(to, size, wide, compared);
        case Kind::kComplex:
            put_number(to, size / 2, wide, compared);
            return put_number(to + size / 2, size / 2, wide, compared);
        case Kind::kPair: {
            const std::size_t second = size - type.first;
            std::byte* behind = to + (type.first + second - 1) / second * second;
            const bool real = predefined::detail::is_float(type);
            real ? put_number(to, type.first, wide, true) : put_bits(to, type.first);
            const bool real_place = real && (second == 8 || type.handle == MPI_2REAL);
            return real_place ? put_number(behind, second, false, true) : put_bits(behind, second);
        }
    }
}

bool not_a_number(const std::byte* at, std::size_t bytes, bool long_double) {
    const auto is = [&](auto value) {
        std::memcpy(&value, at, sizeof value);
        return value != value;
    };
    return bytes == 4 ? is(0.0f) : bytes == 8 ? is(0.0) : long_double ? is(0.0L) : is(__float128(0));
}

// Which of the values that are no numbers comes out, nobody says.
bool same(const Type& type, bool narrow, const std::vector<std::byte>& one, const std::vector<std::byte>& other) {
    const std::vector<bool> significant = predefined::significant(type);
    const std::size_t size = type.size(), extent = significant.size();
    const bool numbers = !narrow && (type.kind == Kind::kFloat || type.kind == Kind::kComplex);
    const std::size_t part = type.kind == Kind::kComplex ? size / 2 : size;
    const bool wide = predefined::detail::is_long_double(type.handle);
    for (std::size_t i = 0; i < one.size(); ++i) {
        if (one[i] == other[i] || !significant[i % extent])
            continue;
        const std::size_t start = i / part * part;
        if (!numbers || !not_a_number(&one[start], part, wide) || !not_a_number(&other[start], part, wide))
            return false;
    }
    return true;
}

int class_of(int code) {
    int mpi_class = MPI_SUCCESS;
    if (code != MPI_SUCCESS)
        MPI_Error_class(code, &mpi_class);
    return mpi_class;
}

// `shift` bytes behind where the allocation starts: kernels take no element from where a GPU could not.
void compare(const Type& type, unsigned narrow, const Operator& op, int count, std::size_t shift) {
    const bool compared =
        op.handle == MPI_MIN || op.handle == MPI_MAX || op.handle == MPI_MINLOC || op.handle == MPI_MAXLOC;
    const std::size_t extent = type.extent(), bytes = extent * static_cast<std::size_t>(count);
    std::vector<std::byte> in(bytes, std::byte{0xee}), inout(bytes, std::byte{0xdd});
    for (std::size_t at = 0; at < bytes; at += extent) {
        for (std::byte* element : {&in[at], &inout[at]}) {
            put(type, narrow, element, compared);
            avoid_open_mpi(type, op.handle, element);
        }
        if (below(4) == 0)
            std::copy_n(&in[at], extent, &inout[at]);
    }
    std::vector<std::byte> wanted = inout;
    const int right = class_of(MPI_Reduce_local(in.data(), wanted.data(), count, type.handle, op.handle));
    legal += right == MPI_SUCCESS;
    std::vector<std::byte> before(shift, std::byte{1}), all_in = before, all_inout = before;
    all_in.insert(all_in.end(), in.begin(), in.end());
    all_inout.insert(all_inout.end(), inout.begin(), inout.end());
    all_inout.push_back(std::byte{2});
    using enum gpu::Kind;
    constexpr std::pair<gpu::Kind, gpu::Kind> kPlaces[] = {{kDevice, kDevice},  {kManaged, kManaged},
                                                           {kDevice, kManaged}, {kHost, kDevice},
                                                           {kDevice, kPinned},  {kPinned, kDevice}};
    for (const auto& [from, to] : kPlaces) {
        const gpu::Memory send(from, all_in), recv(to, all_inout);
        const int got = class_of(MPI_Reduce_local(send.at(shift), recv.at(shift), count, type.handle, op.handle));
        const std::vector<std::byte> after = recv.read();
        const std::vector<std::byte> result(after.begin() + static_cast<std::ptrdiff_t>(shift), after.end() - 1);
        const bool kept = send.read() == all_in && after.back() == std::byte{2} &&
                          std::equal(before.begin(), before.end(), after.begin());
        if (got == right && kept && (right != MPI_SUCCESS || same(type, narrow != 0, result, wanted)))
            continue;
        if (++failures < 20)
            std::fprintf(stderr, "FAILED: %d of %s with %s from %s to %s memory: error class %d, on the host %d%s\n",
                         count, type.name, op.name, gpu::name(from), gpu::name(to), got, right,
                         kept ? "" : "; other bytes have changed");
    }
}

}  // namespace

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    draw.seed(random_seed());
    gpu::Driver::get().use(0);
    struct Case {
        Type type;
        unsigned narrow;
    };
    std::vector<Case> cases;
    for (const Type& type : predefined::types())
        cases.push_back({type, 0});
    cases.push_back({{"MPIX_FLOAT16", MPIX_FLOAT16, Kind::kFloat}, 0x7bff});
    cases.push_back({{"MPIX_BFLOAT16", MPIX_BFLOAT16, Kind::kFloat}, 0x7f7f});
    cases.push_back({{"MPIX_FLOAT8_E4M3", MPIX_FLOAT8_E4M3, Kind::kFloat}, 0x7e});
    cases.push_back({{"MPIX_FLOAT8_E5M2", MPIX_FLOAT8_E5M2, Kind::kFloat}, 0x7b});
    const Operator operators[] = {{"MPI_SUM", MPI_SUM},        {"MPI_PROD", MPI_PROD},     {"MPI_MIN", MPI_MIN},
                                  {"MPI_MAX", MPI_MAX},        {"MPI_LAND", MPI_LAND},     {"MPI_LOR", MPI_LOR},
                                  {"MPI_LXOR", MPI_LXOR},      {"MPI_BAND", MPI_BAND},     {"MPI_BOR", MPI_BOR},
                                  {"MPI_BXOR", MPI_BXOR},      {"MPI_MINLOC", MPI_MINLOC}, {"MPI_MAXLOC", MPI_MAXLOC},
                                  {"MPI_REPLACE", MPI_REPLACE}};
    for (const auto& [type, narrow] : cases)
        for (const Operator& op : operators)
            for (const auto& [count, shift] : {std::pair{1, 0}, {700, 16}, {3, 1}, {0, 0}})
                // Open MPI 5's own code for the largest elements wants them aligned, and dies otherwise.
                compare(type, narrow, op, count, static_cast<std::size_t>(type.size() > 8 && shift == 1 ? 16 : shift));
    if (legal < 500) {
        std::fprintf(stderr, "FAILED: the table is short: %ld legal reductions\n", legal);
        ++failures;
    }
    MPI_Finalize();
    return failures != 0;
}
