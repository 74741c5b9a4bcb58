// launch: -n 2 --gpus 2 -x SWITCHYARD_NCCL_THRESHOLD=1
// launch: -n 3 --gpus 1 -x SWITCHYARD_NCCL_THRESHOLD=1
//
// Every predefined type with every predefined operator, from and to memory of every kind: the same result as on host
// memory, and the same error where MPI has no such reduction; and every type moved. The reference is MPI on host
// memory.
#include <mpi.h>

#include <cstdio>
#include <functional>
#include <string>

#include "../gpu.hpp"
#include "predefined.hpp"

namespace {

using predefined::Type;

int rank = 0, size = 1, failures = 0;
long legal = 0, illegal = 0;

constexpr int kCount = 6;  // elements a rank

struct Operator {
    const char* name;
    MPI_Op handle;
};
const std::vector<Operator>& operators() {
    static const std::vector<Operator> all = {
        {"MPI_SUM", MPI_SUM},         {"MPI_PROD", MPI_PROD},  {"MPI_MIN", MPI_MIN},       {"MPI_MAX", MPI_MAX},
        {"MPI_LAND", MPI_LAND},       {"MPI_LOR", MPI_LOR},    {"MPI_LXOR", MPI_LXOR},     {"MPI_BAND", MPI_BAND},
        {"MPI_BOR", MPI_BOR},         {"MPI_BXOR", MPI_BXOR},  {"MPI_MINLOC", MPI_MINLOC}, {"MPI_MAXLOC", MPI_MAXLOC},
        {"MPI_REPLACE", MPI_REPLACE}, {"MPI_NO_OP", MPI_NO_OP}};
    return all;
}

struct Form {
    const char* name;
    int (*call)(const void* send, void* recv, MPI_Datatype type, MPI_Op op);
};

const std::vector<Form>& reductions() {
    static const std::vector<Form> all = {
        {"MPI_Allreduce",
         [](auto s, auto r, auto t, auto o) { return MPI_Allreduce(s, r, kCount, t, o, MPI_COMM_WORLD); }},
        {"MPI_Reduce",
         [](auto s, auto r, auto t, auto o) { return MPI_Reduce(s, r, kCount, t, o, 0, MPI_COMM_WORLD); }},
        {"MPI_Reduce_scatter_block",
         [](auto s, auto r, auto t, auto o) {
             return MPI_Reduce_scatter_block(s, r, kCount / size, t, o, MPI_COMM_WORLD);
         }},
        {"MPI_Scan", [](auto s, auto r, auto t, auto o) { return MPI_Scan(s, r, kCount, t, o, MPI_COMM_WORLD); }},
        {"MPI_Reduce_local", [](auto s, auto r, auto t, auto o) { return MPI_Reduce_local(s, r, kCount, t, o); }},
        {"MPI_Iallreduce",
         [](auto s, auto r, auto t, auto o) {
             MPI_Request request = MPI_REQUEST_NULL;
             const int rc = MPI_Iallreduce(s, r, kCount, t, o, MPI_COMM_WORLD, &request);
             return rc == MPI_SUCCESS ? MPI_Wait(&request, MPI_STATUS_IGNORE) : rc;
         }},
    };
    return all;
}

const std::vector<Form>& movements() {
    static const std::vector<Form> all = {
        {"MPI_Allgather", [](auto s, auto r, auto t,
                             auto) { return MPI_Allgather(s, kCount / size, t, r, kCount / size, t, MPI_COMM_WORLD); }},
        {"MPI_Alltoall", [](auto s, auto r, auto t,
                            auto) { return MPI_Alltoall(s, kCount / size, t, r, kCount / size, t, MPI_COMM_WORLD); }},
        {"MPI_Bcast", [](auto, auto r, auto t, auto) { return MPI_Bcast(r, kCount, t, size - 1, MPI_COMM_WORLD); }},
        {"MPI_Sendrecv",
         [](auto s, auto r, auto t, auto) {
             return MPI_Sendrecv(s, kCount, t, (rank + 1) % size, 0, r, kCount, t, (rank + size - 1) % size, 0,
                                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
         }},
    };
    return all;
}

// Elements between bytes that must stay as they are. A pair's location has something in all of its bytes.
std::vector<std::byte> elements(const Type& type, int seed) {
    std::vector<std::byte> all(type.extent() * kCount, std::byte{0xee});
    for (int i = 0; i < kCount; ++i)
        predefined::put(type, &all[static_cast<std::size_t>(i) * type.extent()], 1 + (i + seed) % 3,
                        (1 + i + 10 * seed) * 16843009);
    return all;
}

int class_of(int code) {
    int mpi_class = MPI_SUCCESS;
    if (code != MPI_SUCCESS)
        MPI_Error_class(code, &mpi_class);
    return mpi_class;
}

struct Outcome {
    int mpi_class;
    std::vector<std::byte> send, recv;
};

Outcome run(const Form& form, const Type& type, MPI_Op op, gpu::Kind from, gpu::Kind to) {
    const gpu::Memory send(from, elements(type, rank)), recv(to, elements(type, 7 + rank));
    const int rc = form.call(send.address(), recv.address(), type.handle, op);
    return {class_of(rc), send.read(), recv.read()};
}

bool same(const Type& type, const std::vector<std::byte>& one, const std::vector<std::byte>& other) {
    const std::vector<bool> significant = predefined::significant(type);
    for (std::size_t i = 0; i < one.size(); ++i)
        if (significant[i % significant.size()] && one[i] != other[i])
            return false;
    return true;
}

void compare(const Form& form, const Type& type, const Operator& op) {
    const Outcome right = run(form, type, op.handle, gpu::Kind::kHost, gpu::Kind::kHost);
    ++(right.mpi_class == MPI_SUCCESS ? legal : illegal);
    using enum gpu::Kind;
    constexpr std::pair<gpu::Kind, gpu::Kind> kPlaces[] = {
        {kDevice, kDevice}, {kManaged, kManaged}, {kHost, kDevice}, {kDevice, kPinned}};
    for (const auto& [from, to] : kPlaces) {
        const Outcome got = run(form, type, op.handle, from, to);
        const bool valid = right.mpi_class == MPI_SUCCESS;
        if (got.mpi_class == right.mpi_class && same(type, got.send, right.send) &&
            (!valid || same(type, got.recv, right.recv)))
            continue;
        if (++failures < 20)
            std::fprintf(
                stderr, "rank %d: FAILED: %s of %s with %s from %s to %s memory: error class %d, on the host %d\n",
                rank, form.name, type.name, op.name, gpu::name(from), gpu::name(to), got.mpi_class, right.mpi_class);
    }
}

}  // namespace

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    gpu::Driver::get().use(rank % gpu::Driver::get().devices);
    for (const Type& type : predefined::types()) {
        for (const Form& form : movements())
            compare(form, type, {"no operator", MPI_OP_NULL});
        for (const Operator& op : operators())
            for (const Form& form : reductions())
                compare(form, type, op);
    }
    if (rank == 0)
        std::printf("%ld legal and %ld illegal combinations\n", legal, illegal);
    if (legal < 1000 || illegal < 1000) {
        std::fprintf(stderr, "FAILED: the table is short\n");
        ++failures;
    }
    MPI_Finalize();
    return failures != 0;
}
