// Synchronous sends of host memory that are as long as the library's envelopes: one that has only been probed for is
// not complete, and one that is received is, with its data, however that is done. Nothing tells them apart from others.
// launch: -n 2 --gpus 2
// launch: -n 2 --gpus 2 -x LEVEL=3
// launch: -n 2 --gpus 1 -x SWITCHYARD_P2P_THRESHOLD=1K
#include <mpi.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "../gpu.hpp"

namespace {

constexpr int kBytes = 101, kRoom = 200;
enum Tag { kTag = 1, kProbed = 2, kGo = 3, kNobodys = 9 };
enum Form { kIssend, kInit, kVector, kForms };
enum Way {
    kRecv,
    kNoStatus,
    kIrecv,
    kTest,
    kAsked,
    kPersistent,
    kWildcard,
    kColumns,
    kDevice,
    kSendrecv,
    kMrecv,
    kImrecv,
    kWays
};

int rank = 0, failures = 0;

void expect(bool good, const std::string& what) {
    if (good)
        return;
    std::fprintf(stderr, "FAILED: rank %d: %s\n", rank, what.c_str());
    ++failures;
}

std::vector<std::byte> content(int number) {
    std::vector<std::byte> all(kBytes);
    for (std::size_t i = 0; i < all.size(); ++i)
        all[i] = static_cast<std::byte>(i * 7 + static_cast<std::size_t>(number) * 31 + 1);
    return all;
}

// Every other byte.
MPI_Datatype columns() {
    MPI_Datatype type = MPI_DATATYPE_NULL;
    MPI_Type_vector(kBytes, 1, 2, MPI_BYTE, &type);
    MPI_Type_commit(&type);
    return type;
}

void progress(MPI_Comm comm, double seconds) {
    const double end = MPI_Wtime() + seconds;
    for (int flag = 0; MPI_Wtime() < end;)
        MPI_Iprobe(0, kNobodys, comm, &flag, MPI_STATUS_IGNORE);
}

void send(Form form, MPI_Comm comm, int number, bool probed) {
    const std::string what = "form " + std::to_string(form) + ", message " + std::to_string(number);
    std::vector<std::byte> data = content(number);
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Datatype type = columns();
    std::vector<std::byte> spread(2 * kBytes);
    for (std::size_t i = 0; i < kBytes; ++i)
        spread[2 * i] = data[i];
    if (form == kIssend)
        MPI_Issend(data.data(), kBytes, MPI_BYTE, 1, kTag, comm, &request);
    else if (form == kVector)
        MPI_Issend(spread.data(), 1, type, 1, kTag, comm, &request);
    else
        MPI_Ssend_init(data.data(), kBytes, MPI_BYTE, 1, kTag, comm, &request);
    if (form == kInit)
        MPI_Start(&request);
    MPI_Type_free(&type);
    if (probed) {
        MPI_Recv(nullptr, 0, MPI_BYTE, 1, kProbed, comm, MPI_STATUS_IGNORE);
        const double end = MPI_Wtime() + 0.02;
        int done = 0;
        while (done == 0 && MPI_Wtime() < end)
            MPI_Test(&request, &done, MPI_STATUS_IGNORE);
        expect(done == 0, what + " is complete though it has only been probed for");
        MPI_Send(nullptr, 0, MPI_BYTE, 1, kGo, comm);
    }
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    if (request != MPI_REQUEST_NULL)
        MPI_Request_free(&request);
}

void check(const std::byte* data, std::size_t stride, const MPI_Status* status, int number, const std::string& what) {
    const std::vector<std::byte> wanted = content(number);
    for (std::size_t i = 0; i < kBytes; ++i)
        if (data[i * stride] != wanted[i])
            return expect(false, what + ": byte " + std::to_string(i));
    if (status == nullptr)
        return;
    int count = 0;
    MPI_Get_count(status, MPI_BYTE, &count);
    expect(count == kBytes && status->MPI_SOURCE == 0 && status->MPI_TAG == kTag,
           what + ": " + std::to_string(count) + " bytes from " + std::to_string(status->MPI_SOURCE) + ", tag " +
               std::to_string(status->MPI_TAG));
}

void await_probed(Way way, MPI_Comm comm, MPI_Message& message, const std::string& what) {
    MPI_Status status;
    if (way == kMrecv || way == kImrecv)
        MPI_Mprobe(0, kTag, comm, &message, &status);
    else
        MPI_Probe(0, kTag, comm, &status);
    int count = 0;
    MPI_Get_count(&status, MPI_BYTE, &count);
    expect(count == kBytes, what + ": the probe says " + std::to_string(count) + " bytes");
    MPI_Send(nullptr, 0, MPI_BYTE, 0, kProbed, comm);
    progress(comm, 0.01);
    MPI_Recv(nullptr, 0, MPI_BYTE, 0, kGo, comm, MPI_STATUS_IGNORE);
}

void receive(Way way, MPI_Comm comm, int number, bool probed) {
    const std::string what =
        "way " + std::to_string(way) + ", message " + std::to_string(number) + (probed ? ", probed" : "");
    std::array<std::byte, kRoom + 4> data{};
    gpu::Memory device(gpu::Kind::kDevice, kRoom);
    MPI_Datatype type = columns();
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Message message = MPI_MESSAGE_NULL;
    MPI_Status status;
    int done = 0;
    if (way == kPersistent)
        MPI_Recv_init(data.data(), kRoom, MPI_BYTE, 0, kTag, comm, &request);
    if (probed)
        await_probed(way, comm, message, what);
    switch (way) {
        case kRecv:
            MPI_Recv(data.data(), kBytes, MPI_BYTE, 0, kTag, comm, &status);
            break;
        case kNoStatus:
            MPI_Recv(data.data(), kRoom, MPI_BYTE, 0, kTag, comm, MPI_STATUS_IGNORE);
            break;
        case kIrecv:
        case kTest:
        case kAsked:
            MPI_Irecv(data.data(), kRoom, MPI_BYTE, 0, kTag, comm, &request);
            break;
        case kPersistent:
            MPI_Start(&request);
            break;
        case kWildcard:
            MPI_Recv(data.data(), kRoom, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &status);
            break;
        case kColumns:
            MPI_Irecv(data.data(), 1, type, 0, kTag, comm, &request);
            break;
        case kDevice:
            MPI_Recv(device.address(), kRoom, MPI_BYTE, 0, kTag, comm, &status);
            break;
        case kSendrecv:
            MPI_Sendrecv(nullptr, 0, MPI_BYTE, MPI_PROC_NULL, 0, data.data(), kRoom, MPI_BYTE, 0, kTag, comm, &status);
            break;
        default:
            if (!probed)
                MPI_Mprobe(0, kTag, comm, &message, &status);
            if (way == kMrecv)
                MPI_Mrecv(data.data(), kRoom, MPI_BYTE, &message, &status);
            else
                MPI_Imrecv(data.data(), kRoom, MPI_BYTE, &message, &request);
    }
    while (way == kTest && done == 0)
        MPI_Test(&request, &done, &status);
    while (way == kAsked && done == 0)
        MPI_Request_get_status(request, &done, &status);
    if (way == kAsked)
        check(data.data(), 1, &status, number, what + ", asked for");
    if (request != MPI_REQUEST_NULL)
        MPI_Wait(&request, &status);
    if (request != MPI_REQUEST_NULL)
        MPI_Request_free(&request);
    MPI_Type_free(&type);
    if (way == kDevice) {
        const std::vector<std::byte> there = device.read();
        check(there.data(), 1, &status, number, what);
    } else {
        check(data.data(), way == kColumns ? 2 : 1, way == kNoStatus ? nullptr : &status, number, what);
    }
}

void exchange(MPI_Comm comm) {
    int number = 0;
    for (int form = 0; form < kForms; ++form)
        for (int way = 0; way < kWays; ++way)
            for (const bool probed : {false, true}) {
                ++number;
                if (rank == 0)
                    send(static_cast<Form>(form), comm, number, probed);
                else
                    receive(static_cast<Way>(way), comm, number, probed);
            }
}

// MPI_Ssend into a receive that is there, and to this process itself.
void block() {
    std::vector<std::byte> data = content(7), here(kBytes), there(kBytes);
    MPI_Request requests[2];
    MPI_Irecv(here.data(), kBytes, MPI_BYTE, rank, kTag, MPI_COMM_WORLD, &requests[0]);
    MPI_Ssend(data.data(), kBytes, MPI_BYTE, rank, kTag, MPI_COMM_WORLD);
    MPI_Irecv(there.data(), kBytes, MPI_BYTE, 1 - rank, kTag, MPI_COMM_WORLD, &requests[1]);
    MPI_Ssend(data.data(), kBytes, MPI_BYTE, 1 - rank, kTag, MPI_COMM_WORLD);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    check(here.data(), 1, nullptr, 7, "to itself");
    check(there.data(), 1, nullptr, 7, "MPI_Ssend");
}

}  // namespace

int main(int argc, char** argv) {
    int provided = MPI_THREAD_SINGLE;
    const char* level = std::getenv("LEVEL");
    MPI_Init_thread(&argc, &argv, level != nullptr ? std::atoi(level) : MPI_THREAD_SINGLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    gpu::Driver::get().use(rank % gpu::Driver::get().devices);
    exchange(MPI_COMM_WORLD);
    block();
    MPI_Finalize();
    return failures == 0 ? 0 : 1;
}
