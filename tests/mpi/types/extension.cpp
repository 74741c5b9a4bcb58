// launch: -n 4 --gpus 4 --relinked
// launch: -n 3 --gpus 1 --relinked
// launch: -n 2 --gpus 2 --relinked -x SWITCHYARD_NCCL_THRESHOLD=1
// launch: -n 3 --relinked
// launch: -n 2 --relinked -x SWITCHYARD=off
//
// MPIX_FLOAT16, MPIX_BFLOAT16, MPIX_FLOAT8_E4M3, MPIX_FLOAT8_E5M2 and MPIX_AVG on host and device memory against
// arithmetic; with GPUs over NCCL and staged, without GPUs, and where Switchyard is otherwise turned off.
#include <mpi.h>
#include <mpix_switchyard.h>

#include <complex>
#include <cstdio>
#include <cstring>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "../gpu.hpp"
#include "small_floats.hpp"

namespace {

int rank = 0, size = 1, failures = 0;

void expect(bool right, const std::string& what) {
    if (!right && ++failures < 20)
        std::fprintf(stderr, "rank %d: FAILED: %s\n", rank, what.c_str());
}

// Where buffers of this job may be: on the host alone without a driver.
std::vector<gpu::Kind> places() {
    if (dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL) == nullptr)
        return {gpu::Kind::kHost};
    gpu::Driver::get().use(rank % gpu::Driver::get().devices);
    return {gpu::Kind::kHost, gpu::Kind::kDevice, gpu::Kind::kManaged};
}

struct Format {
    const char* name;
    MPI_Datatype type;
    int bytes;
    SmallFloats numbers;
    int largest_exact;  // so large may sums of whole numbers grow

    std::vector<std::byte> encode(const std::vector<double>& values) const {
        std::vector<std::byte> all(values.size() * static_cast<std::size_t>(bytes));
        for (std::size_t i = 0; i < values.size(); ++i) {
            const std::uint32_t bits = numbers.nearest(values[i]);
            std::memcpy(&all[i * static_cast<std::size_t>(bytes)], &bits, static_cast<std::size_t>(bytes));
        }
        return all;
    }
};

// Contributions whose reduction is exact in every order: few whole numbers, or powers of two for the product.
double contribution(MPI_Op op, std::size_t i, int of, int largest) {
    const int most = std::max(1, largest / size);
    const auto step = static_cast<int>(i % 5) + of;
    if (op == MPI_PROD)
        return step % 3 == 0 ? -2.0 : step % 3 == 1 ? 0.5 : 1.0;
    if (op == MPI_MIN || op == MPI_MAX)
        return step % 7 - 3;
    return step % (most + 1);
}

double combined(MPI_Op op, std::size_t i, int ranks, int largest) {
    double all = contribution(op, i, 0, largest);
    for (int r = 1; r < ranks; ++r) {
        const double one = contribution(op, i, r, largest);
        all = op == MPI_PROD  ? all * one
              : op == MPI_MIN ? std::min(all, one)
              : op == MPI_MAX ? std::max(all, one)
                              : all + one;
    }
    return op == MPIX_AVG ? all / ranks : all;
}

std::vector<double> contributions(MPI_Op op, std::size_t from, std::size_t count, int largest) {
    std::vector<double> values(count);
    for (std::size_t i = 0; i < count; ++i)
        values[i] = contribution(op, from + i, rank, largest);
    return values;
}

std::vector<double> results(MPI_Op op, std::size_t from, std::size_t count, int ranks, int largest) {
    std::vector<double> values(count);
    for (std::size_t i = 0; i < count; ++i)
        values[i] = combined(op, from + i, ranks, largest);
    return values;
}

// One reducing collective with send and receive buffers of `kind`; receives nothing where `result` is empty.
struct Case {
    const char* name;
    bool averages;
    std::function<int(const void* send, void* recv, int count, MPI_Datatype type, MPI_Op op)> call;
    enum { kAll, kRoot, kBlock, kPrefix } gives;
};

int wait_for(int rc, MPI_Request& request) {
    return rc != MPI_SUCCESS ? rc : MPI_Wait(&request, MPI_STATUS_IGNORE);
}

const std::vector<Case>& cases() {
    static const std::vector<Case> all = {
        {"MPI_Allreduce", true,
         [](auto s, auto r, int n, auto t, auto o) { return MPI_Allreduce(s, r, n, t, o, MPI_COMM_WORLD); },
         Case::kAll},
        {"PMPI_Allreduce", true,
         [](auto s, auto r, int n, auto t, auto o) { return PMPI_Allreduce(s, r, n, t, o, MPI_COMM_WORLD); },
         Case::kAll},
        {"MPI_Iallreduce", true,
         [](auto s, auto r, int n, auto t, auto o) {
             MPI_Request request = MPI_REQUEST_NULL;
             return wait_for(MPI_Iallreduce(s, r, n, t, o, MPI_COMM_WORLD, &request), request);
         },
         Case::kAll},
        {"MPI_Reduce", true,
         [](auto s, auto r, int n, auto t, auto o) { return MPI_Reduce(s, r, n, t, o, size - 1, MPI_COMM_WORLD); },
         Case::kRoot},
        {"MPI_Reduce_scatter_block", true,
         [](auto s, auto r, int n, auto t, auto o) {
             return MPI_Reduce_scatter_block(s, r, n / size, t, o, MPI_COMM_WORLD);
         },
         Case::kBlock},
        {"MPI_Ireduce_scatter", true,
         [](auto s, auto r, int n, auto t, auto o) {
             const std::vector<int> counts(static_cast<std::size_t>(size), n / size);
             MPI_Request request = MPI_REQUEST_NULL;
             return wait_for(MPI_Ireduce_scatter(s, r, counts.data(), t, o, MPI_COMM_WORLD, &request), request);
         },
         Case::kBlock},
        {"MPI_Scan", false,
         [](auto s, auto r, int n, auto t, auto o) { return MPI_Scan(s, r, n, t, o, MPI_COMM_WORLD); }, Case::kPrefix},
    };
    return all;
}

void reduces(const Case& one, const Format& format, MPI_Op op, gpu::Kind kind, int count) {
    const auto n = static_cast<std::size_t>(count), bytes = n * static_cast<std::size_t>(format.bytes);
    const gpu::Memory send(kind, format.encode(contributions(op, 0, n, format.largest_exact)));
    const gpu::Memory recv(kind, std::vector<std::byte>(bytes, std::byte{0x55}));
    const int rc = one.call(send.address(), recv.address(), count, format.type, op);
    std::vector<double> right;
    if (one.gives == Case::kAll || (one.gives == Case::kRoot && rank == size - 1))
        right = results(op, 0, n, size, format.largest_exact);
    if (one.gives == Case::kBlock)
        right = results(op, static_cast<std::size_t>(rank) * (n / static_cast<std::size_t>(size)),
                        n / static_cast<std::size_t>(size), size, format.largest_exact);
    if (one.gives == Case::kPrefix)
        right = results(op, 0, n, rank + 1, format.largest_exact);
    std::vector<std::byte> wanted = format.encode(right);
    wanted.resize(bytes, std::byte{0x55});
    const std::string what = std::string(one.name) + " of " + std::to_string(count) + " " + format.name + " in " +
                             gpu::name(kind) + " memory";
    expect(rc == MPI_SUCCESS, what + " fails");
    expect(recv.read() == wanted, what + " gives another result");
}

void reduces_in_place(const Format& format, MPI_Op op, gpu::Kind kind, int count) {
    const auto n = static_cast<std::size_t>(count);
    const gpu::Memory both(kind, format.encode(contributions(op, 0, n, format.largest_exact)));
    expect(MPI_Allreduce(MPI_IN_PLACE, both.address(), count, format.type, op, MPI_COMM_WORLD) == MPI_SUCCESS &&
               both.read() == format.encode(results(op, 0, n, size, format.largest_exact)),
           std::string("MPI_Allreduce in place of ") + format.name + " in " + gpu::name(kind) + " memory");
}

// Numbers that need rounding: the sum of any two is exact in double.
void rounds_to_nearest_even(const Format& format, gpu::Kind kind) {
    if (size != 2)
        return;
    std::vector<double> sums;
    std::vector<std::byte> mine;
    const std::uint32_t numbers = format.numbers.numbers();
    for (std::uint32_t i = 0; i < 500; ++i) {
        const std::uint32_t near = numbers / 3 + i * 37 % (numbers / 3);
        const std::uint32_t bits[2] = {near, (near + i % 9) | (i % 2 == 0 ? 0 : format.numbers.sign())};
        sums.push_back(format.numbers.value(bits[0]) + format.numbers.value(bits[1]));
        const auto* raw = reinterpret_cast<const std::byte*>(&bits[rank]);
        mine.insert(mine.end(), raw, raw + format.bytes);
    }
    const gpu::Memory send(kind, mine), recv(kind, mine.size());
    MPI_Allreduce(send.address(), recv.address(), 500, format.type, MPI_SUM, MPI_COMM_WORLD);
    expect(recv.read() == format.encode(sums),
           std::string("a sum of ") + format.name + " is not the number next to it: " + gpu::name(kind));
}

// The types move like any other, alone and in derived types.
void moves(const Format& format, gpu::Kind kind) {
    MPI_Datatype column = MPI_DATATYPE_NULL;
    MPI_Type_vector(50, 1, 3, format.type, &column);
    MPI_Type_commit(&column);
    const auto bytes = static_cast<std::size_t>(format.bytes);
    std::vector<std::byte> matrix(150 * bytes);
    for (std::size_t i = 0; i < matrix.size(); ++i)
        matrix[i] = static_cast<std::byte>(i * 7 + static_cast<std::size_t>(rank));
    const gpu::Memory send(kind, matrix), recv(kind, 50 * bytes);
    const int next = (rank + 1) % size, previous = (rank + size - 1) % size;
    MPI_Status status;
    MPI_Sendrecv(send.address(), 1, column, next, 7, recv.address(), 50, format.type, previous, 7, MPI_COMM_WORLD,
                 &status);
    std::vector<std::byte> wanted;
    for (std::size_t i = 0; i < 50; ++i)
        for (std::size_t b = 0; b < bytes; ++b)
            wanted.push_back(static_cast<std::byte>((3 * i * bytes + b) * 7 + static_cast<std::size_t>(previous)));
    int count = 0, elements = 0;
    MPI_Get_count(&status, format.type, &count);
    MPI_Get_elements(&status, format.type, &elements);
    expect(recv.read() == wanted && count == 50 && elements == 50,
           std::string("a column of ") + format.name + " in " + gpu::name(kind) + " memory arrives otherwise");
    MPI_Type_free(&column);
}

void describes_itself(const Format& format) {
    int bytes = 0, length = 0;
    MPI_Aint lower = 1, extent = 0;
    char text[MPI_MAX_OBJECT_NAME] = {};
    MPI_Type_size(format.type, &bytes);
    MPI_Type_get_extent(format.type, &lower, &extent);
    MPI_Type_get_name(format.type, text, &length);
    expect(bytes == format.bytes && lower == 0 && extent == bytes && std::string_view(text) == format.name,
           std::string(format.name) + " has another size, extent or name");
    std::vector<std::byte> in = format.encode({1.5, 2}), out = format.encode({0.5, -1});
    const int rc = MPI_Reduce_local(in.data(), out.data(), 2, format.type, MPI_SUM);
    expect(rc == MPI_SUCCESS && out == format.encode({2, 1}), std::string("MPI_Reduce_local of ") + format.name);
}

int class_of(int code) {
    int mpi_class = 0;
    MPI_Error_class(code, &mpi_class);
    return mpi_class;
}

// What has no meaning is MPI's error, on every rank.
void refuses(const Format& format) {
    std::vector<std::byte> in(8), out(8);
    for (MPI_Op op : {MPI_LAND, MPI_BOR, MPI_MINLOC})
        expect(class_of(MPI_Allreduce(in.data(), out.data(), 1, format.type, op, MPI_COMM_WORLD)) == MPI_ERR_OP,
               std::string("an operator that ") + format.name + " does not have is taken");
    expect(class_of(MPI_Scan(in.data(), out.data(), 1, format.type, MPIX_AVG, MPI_COMM_WORLD)) == MPI_ERR_OP,
           "MPI_Scan takes MPIX_AVG");
    for (MPI_Datatype type : {MPI_BYTE, MPI_C_BOOL, MPI_2INT})
        expect(class_of(MPI_Allreduce(in.data(), out.data(), 1, type, MPIX_AVG, MPI_COMM_WORLD)) == MPI_ERR_OP,
               "an average of what is no number is taken");
}

// `count` averages that are whole numbers; those of integers are made of sums that leave a rest, which division towards
// zero drops.
template <typename Number>
void averages(MPI_Datatype type, const char* name, gpu::Kind kind, int count) {
    const auto n = static_cast<std::size_t>(count);
    std::vector<Number> mine(n), wanted(n);
    for (std::size_t i = 0; i < n; ++i) {
        const int sign = std::is_signed_v<Number> && i % 3 == 0 ? -1 : 1;
        const int average = static_cast<int>(i % 10) * sign;
        const int rest = std::is_integral_v<Number> && rank == 0 ? static_cast<int>(i % 2) * sign : 0;
        mine[i] = static_cast<Number>(average + rest);
        wanted[i] = static_cast<Number>(average);
    }
    std::vector<std::byte> content(n * sizeof(Number)), right(content.size());
    std::memcpy(content.data(), mine.data(), content.size());
    std::memcpy(right.data(), wanted.data(), right.size());
    const gpu::Memory send(kind, content), recv(kind, content.size());
    const std::string what =
        std::string("the average of ") + std::to_string(count) + " " + name + " in " + gpu::name(kind) + " memory";
    expect(MPI_Allreduce(send.address(), recv.address(), count, type, MPIX_AVG, MPI_COMM_WORLD) == MPI_SUCCESS &&
               recv.read() == right,
           what);
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Ireduce(rank == 0 ? MPI_IN_PLACE : send.address(), send.address(), count, type, MPIX_AVG, 0, MPI_COMM_WORLD,
                &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    expect(send.read() == (rank == 0 ? right : content), what + ", reduced to one rank in place");
}

void averages_of_all_kinds(gpu::Kind kind) {
    for (const int count : {3, 50000}) {
        averages<signed char>(MPI_SIGNED_CHAR, "MPI_SIGNED_CHAR", kind, count);
        averages<unsigned short>(MPI_UNSIGNED_SHORT, "MPI_UNSIGNED_SHORT", kind, count);
        averages<int>(MPI_INT, "MPI_INT", kind, count);
        averages<unsigned long>(MPI_UNSIGNED_LONG, "MPI_UNSIGNED_LONG", kind, count);
        averages<float>(MPI_FLOAT, "MPI_FLOAT", kind, count);
        averages<double>(MPI_DOUBLE, "MPI_DOUBLE", kind, count);
        averages<std::complex<float>>(MPI_C_FLOAT_COMPLEX, "MPI_C_FLOAT_COMPLEX", kind, count);
        averages<std::complex<double>>(MPI_C_DOUBLE_COMPLEX, "MPI_C_DOUBLE_COMPLEX", kind, count);
    }
    // Its unused bytes are not compared.
    const long double mine = rank;
    long double average = 0;
    MPI_Allreduce(&mine, &average, 1, MPI_LONG_DOUBLE, MPIX_AVG, MPI_COMM_WORLD);
    expect(average == (size - 1) / 2.0L, "the average of MPI_LONG_DOUBLE");
}

// A program may use them inside a reduction on another communicator, with groups of other sizes.
void averages_over_the_communicator() {
    MPI_Comm half = MPI_COMM_NULL;
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
    int members = 0;
    MPI_Comm_size(half, &members);
    double mine = 6, average = 0;
    MPI_Allreduce(&mine, &average, 1, MPI_DOUBLE, MPIX_AVG, half);
    expect(average == 6, "the average over a part of the processes");
    MPI_Comm_free(&half);
}

void test(const Format& format, gpu::Kind kind) {
    moves(format, kind);
    rounds_to_nearest_even(format, kind);
    for (MPI_Op op : {MPI_SUM, MPI_PROD, MPI_MIN, MPI_MAX, MPIX_AVG}) {
        for (const Case& one : cases())
            for (const int count : {0, size, 40000 - 40000 % size})
                if ((op != MPIX_AVG || one.averages) && (op == MPI_SUM || count > size))
                    reduces(one, format, op, kind, count);
        reduces_in_place(format, op, kind, 40000);
    }
}

}  // namespace

int main(int argc, char** argv) {
    if (MPIX_FLOAT16 != MPI_DATATYPE_NULL || MPIX_AVG != MPI_OP_NULL)
        return std::fprintf(stderr, "FAILED: there are types before MPI_Init\n"), 1;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    const std::vector<Format> formats = {
        {"MPIX_FLOAT16", MPIX_FLOAT16, 2, SmallFloats(5, 10, true, false), 2048},
        {"MPIX_BFLOAT16", MPIX_BFLOAT16, 2, SmallFloats(8, 7, true, false), 256},
        {"MPIX_FLOAT8_E4M3", MPIX_FLOAT8_E4M3, 1, SmallFloats(4, 3, false, true), 16},
        {"MPIX_FLOAT8_E5M2", MPIX_FLOAT8_E5M2, 1, SmallFloats(5, 2, true, true), 8},
    };
    for (const gpu::Kind kind : places()) {
        for (const Format& format : formats)
            test(format, kind);
        averages_of_all_kinds(kind);
    }
    for (const Format& format : formats) {
        describes_itself(format);
        refuses(format);
    }
    averages_over_the_communicator();
    MPI_Finalize();
    if (MPIX_FLOAT8_E5M2 != MPI_DATATYPE_NULL)
        return std::fprintf(stderr, "FAILED: there are types after MPI_Finalize\n"), 1;
    return failures != 0;
}
