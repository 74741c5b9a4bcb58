// The callbacks of the program's attributes are called for what the program does, never for what the library makes for
// itself: of a datatype that is freed while a persistent, non-blocking or partitioned call still needs it, and of a
// communicator with device traffic of every kind. The data against arithmetic.
// launch: -n 2 --gpus 4 --relinked
// launch: -n 2 --gpus 1 --relinked -x SWITCHYARD_NCCL=0
// test-timeout: 60
#include <mpi.h>
#include <mpix_switchyard.h>

#include <mpi-ext.h>  // needs mpi.h

#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "../gpu.hpp"

#if OMPI_MAJOR_VERSION >= 5
#define INIT(name) MPI_##name##_init
#else
#define INIT(name) MPIX_##name##_init
#endif

namespace {

using gpu::Memory;

constexpr int kBlocks = 300, kLength = 100, kInts = kBlocks * 2 * kLength;  // a type has every other 100 integers
int rank = 0, failures = 0;

void expect(bool right, const std::string& what) {
    if (right)
        return;
    std::fprintf(stderr, "FAILED on rank %d: %s\n", rank, what.c_str());
    ++failures;
}

// How often the program has been called.
struct Calls {
    int copies = 0, deletes = 0;
};
Calls of_types, of_comms;

template <typename Object>
int copied(Object, int, void* calls, void* value, void* copy, int* flag) {
    ++static_cast<Calls*>(calls)->copies;
    std::memcpy(copy, &value, sizeof value);
    *flag = 1;
    return MPI_SUCCESS;
}
template <typename Object>
int deleted(Object, int, void*, void* calls) {
    ++static_cast<Calls*>(calls)->deletes;
    return MPI_SUCCESS;
}

void expect_calls(Calls& calls, int copies, int deletes, const std::string& what) {
    expect(calls.copies == copies && calls.deletes == deletes,
           what + ": " + std::to_string(calls.copies) + " copies and " + std::to_string(calls.deletes) +
               " deletions, not " + std::to_string(copies) + " and " + std::to_string(deletes));
    calls = {};
}

MPI_Datatype with_attribute(int key) {
    MPI_Datatype type = MPI_DATATYPE_NULL;
    MPI_Type_vector(kBlocks, kLength, 2 * kLength, MPI_INT, &type);
    MPI_Type_commit(&type);
    MPI_Type_set_attr(type, key, &of_types);
    return type;
}

std::vector<std::byte> integers(int first) {
    std::vector<int> values(kInts);
    for (int i = 0; i < kInts; ++i)
        values[static_cast<std::size_t>(i)] = first + i;
    std::vector<std::byte> bytes(values.size() * sizeof(int));
    std::memcpy(bytes.data(), values.data(), bytes.size());
    return bytes;
}

// What the type's elements of rank 0 make of rank 1's memory.
std::vector<std::byte> mixed() {
    std::vector<std::byte> bytes = integers(1);
    const std::vector<std::byte> sent = integers(0);
    constexpr std::size_t kRun = kLength * sizeof(int);
    for (std::size_t at = 0; at + kRun <= sent.size() - kRun; at += 2 * kRun)
        std::memcpy(bytes.data() + at, sent.data() + at, kRun);
    return bytes;
}

// `begin` makes a request with a type, and may start it; the type goes before the message does.
template <typename Begin>
void type_goes_first(int key, const std::string& what, bool persistent, Begin begin) {
    const Memory memory(gpu::Kind::kDevice, integers(rank));
    MPI_Datatype type = with_attribute(key);
    MPI_Request request = MPI_REQUEST_NULL;
    begin(memory.address(), type, &request);
    expect_calls(of_types, 0, 0, what + ", begun");
    MPI_Type_free(&type);
    if (persistent)
        MPI_Start(&request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    if (request != MPI_REQUEST_NULL)  // also of a partitioned one, which `begin` has started
        MPI_Request_free(&request);
    MPI_Barrier(MPI_COMM_WORLD);
    expect(memory.read() == (rank == 1 ? mixed() : integers(0)), what + ": the data");
    expect_calls(of_types, 0, 1, what + ", over");
}

void types(int key) {
    type_goes_first(key, "a persistent message", true, [](void* memory, MPI_Datatype type, MPI_Request* request) {
        if (rank == 0)
            MPI_Send_init(memory, 1, type, 1, 1, MPI_COMM_WORLD, request);
        else
            MPI_Recv_init(memory, 1, type, 0, 1, MPI_COMM_WORLD, request);
    });
    type_goes_first(key, "a message", false, [](void* memory, MPI_Datatype type, MPI_Request* request) {
        if (rank == 0)
            MPI_Isend(memory, 1, type, 1, 1, MPI_COMM_WORLD, request);
        else
            MPI_Irecv(memory, 1, type, 0, 1, MPI_COMM_WORLD, request);
    });
    type_goes_first(key, "MPI_Ibcast", false, [](void* memory, MPI_Datatype type, MPI_Request* request) {
        MPI_Ibcast(memory, 1, type, 0, MPI_COMM_WORLD, request);
    });
    type_goes_first(key, "a persistent broadcast", true, [](void* memory, MPI_Datatype type, MPI_Request* request) {
        INIT(Bcast)(memory, 1, type, 0, MPI_COMM_WORLD, MPI_INFO_NULL, request);
    });
    type_goes_first(key, "MPIX_Ibcast_multi", false, [](void* memory, MPI_Datatype type, MPI_Request* request) {
        MPIX_Ibcast_multi(&memory, 1, 1, type, 0, MPI_COMM_WORLD, request);
    });
}

#if OMPI_MAJOR_VERSION >= 5
void partitioned(int key) {
    type_goes_first(key, "a partitioned message", false, [](void* memory, MPI_Datatype type, MPI_Request* request) {
        if (rank == 0)
            MPI_Psend_init(memory, 1, 1, type, 1, 1, MPI_COMM_WORLD, MPI_INFO_NULL, request);
        else
            MPI_Precv_init(memory, 1, 1, type, 0, 1, MPI_COMM_WORLD, MPI_INFO_NULL, request);
        MPI_Start(request);
        if (rank == 0)
            MPI_Pready(0, *request);
    });
}
#endif

// Each kind of traffic for which the library may make a communicator of its own.
void use(MPI_Comm comm) {
    const Memory memory(gpu::Kind::kDevice, integers(0));
    void* buffer = memory.address();
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Bcast(buffer, kInts, MPI_INT, 0, comm);
    MPI_Allreduce(MPI_IN_PLACE, buffer, kInts, MPI_INT, MPI_MAX, comm);
    MPI_Iallreduce(MPI_IN_PLACE, buffer, kInts, MPI_INT, MPI_MAX, comm, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    INIT(Bcast)(buffer, kInts, MPI_INT, 0, comm, MPI_INFO_NULL, &request);
    MPI_Start(&request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Request_free(&request);
    MPIX_Ibcast_multi(&buffer, 1, kInts, MPI_INT, 0, comm, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPIX_Bcast_multi(&buffer, 1, kInts, MPI_INT, 0, comm);
    if (rank == 0)
        MPI_Send(buffer, kInts, MPI_INT, 1, 1, comm);
    else
        MPI_Recv(buffer, kInts, MPI_INT, 0, 1, comm, MPI_STATUS_IGNORE);
}

// A communicator of the program's that duplicates another one has the callbacks called once, for itself.
void with_a_stream(MPI_Comm comm) {
    gpu::Driver& driver = gpu::Driver::get();
    void* stream = nullptr;
    driver.check("cuStreamCreate", driver.call<int(void**, unsigned)>("cuStreamCreate")(&stream, 1));
    MPI_Info info = MPI_INFO_NULL;
    MPI_Info_create(&info);
    MPI_Info_set(info, "type", "cudaStream_t");
    MPIX_Info_set_hex(info, "value", &stream, sizeof stream);
    MPIX_Stream object = MPIX_STREAM_NULL;
    MPIX_Stream_create(info, &object);
    MPI_Info_free(&info);
    MPI_Comm made = MPI_COMM_NULL;
    MPIX_Stream_comm_create(comm, object, &made);
    expect_calls(of_comms, 1, 0, "MPIX_Stream_comm_create");
    const Memory memory(gpu::Kind::kDevice, integers(0));
    MPIX_Bcast_enqueue(memory.address(), kInts, MPI_INT, 0, made);
    driver.synchronize();
    MPI_Comm_free(&made);
    expect_calls(of_comms, 0, 1, "MPI_Comm_free of a stream communicator");
    MPIX_Stream_free(&object);
    driver.check("cuStreamDestroy", driver.call<int(void*)>("cuStreamDestroy_v2")(stream));
}

}  // namespace

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    gpu::Driver::get().use(rank % gpu::Driver::get().devices);
    int type_key = MPI_KEYVAL_INVALID, comm_key = MPI_KEYVAL_INVALID;
    MPI_Type_create_keyval(copied<MPI_Datatype>, deleted<MPI_Datatype>, &type_key, &of_types);
    MPI_Comm_create_keyval(copied<MPI_Comm>, deleted<MPI_Comm>, &comm_key, &of_comms);
    types(type_key);  // agreed on by messages and settled alone,
    use(MPI_COMM_WORLD);
    types(type_key);  // and by NCCL where there is any
#if OMPI_MAJOR_VERSION >= 5
    partitioned(type_key);
#endif
    MPI_Comm comm = MPI_COMM_NULL, alone = MPI_COMM_NULL, between = MPI_COMM_NULL;
    MPI_Comm_split(MPI_COMM_WORLD, rank, 0, &alone);
    MPI_Intercomm_create(alone, 0, MPI_COMM_WORLD, 1 - rank, 9, &between);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    for (MPI_Comm made : {comm, between})
        MPI_Comm_set_attr(made, comm_key, &of_comms);
    use(comm);
    expect_calls(of_comms, 0, 0, "a communicator in use");
    with_a_stream(comm);
    const Memory memory(gpu::Kind::kDevice, integers(0));
    MPI_Bcast(memory.address(), kInts, MPI_INT, rank == 0 ? MPI_ROOT : 0, between);
    expect_calls(of_comms, 0, 0, "an intercommunicator in use");
    for (MPI_Comm* made : {&comm, &between, &alone})
        MPI_Comm_free(made);
    expect_calls(of_comms, 0, 2, "MPI_Comm_free");
    MPI_Type_free_keyval(&type_key);
    MPI_Comm_free_keyval(&comm_key);
    MPI_Finalize();
    return failures == 0 ? 0 : 1;
}
