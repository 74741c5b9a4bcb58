// Large messages of MPI's pair types from device memory into host memory. Some of these types have a gap, which MPI
// leaves in an envelope that it receives as one of them too. By every way to receive, whole and truncated to more or
// less than an envelope; the data against arithmetic, and the gaps as they were.
// launch: -n 2 --gpus 2
// launch: -n 2 --gpus 1 -x SWITCHYARD_NCCL=0 -x VGPU_JITTER=2
#include <mpi.h>

#include <algorithm>
#include <cstdio>
#include <vector>

#include "../gpu.hpp"

namespace {

using gpu::Kind;
using Bytes = std::vector<std::byte>;

constexpr int kLarge = 20000;
constexpr int kFew = 3;  // elements, hardly any room
constexpr int kRooms[] = {kLarge, 50, kFew};
constexpr int kTag = 5;
constexpr std::byte kGap{0x5a};

struct Pair {
    const char* name;
    MPI_Datatype type;
};

enum Way { kRecv, kRecvUnseen, kIrecv, kIrecvUnseen, kPersistent, kSendrecv, kSendrecvUnseen, kMrecv, kWays };
constexpr const char* kNames[] = {
    "MPI_Recv",     "MPI_Recv without a status",     "MPI_Irecv", "MPI_Irecv without a status", "MPI_Recv_init",
    "MPI_Sendrecv", "MPI_Sendrecv without a status", "MPI_Mrecv"};

int failures = 0;

struct Case {
    Pair pair;
    Way way;
    int room;

    void expect(bool right, const char* what) const {
        if (right)
            return;
        std::fprintf(stderr, "FAILED: %s of %d elements of %s: %s\n", kNames[way], room, pair.name, what);
        ++failures;
    }
};

std::size_t extent_of(MPI_Datatype type) {
    MPI_Aint lb = 0;
    MPI_Aint extent = 0;
    MPI_Type_get_extent(type, &lb, &extent);
    return static_cast<std::size_t>(extent);
}

// Which bytes of an element are data, by what MPI unpacks.
std::vector<bool> data_of(MPI_Datatype type) {
    int size = 0;
    MPI_Type_size(type, &size);
    const Bytes packed(static_cast<std::size_t>(size), std::byte{0xff});
    Bytes element(extent_of(type));
    int position = 0;
    MPI_Unpack(packed.data(), size, &position, element.data(), 1, type, MPI_COMM_SELF);
    std::vector<bool> data;
    for (const std::byte byte : element)
        data.push_back(byte != std::byte{});
    return data;
}

// Of an element's data; what is in its gaps the sender does not send.
Bytes content(const Case& now, int elements, std::byte gap) {
    const std::vector<bool> data = data_of(now.pair.type);
    Bytes all;
    for (int i = 0; i < elements; ++i)
        for (std::size_t k = 0; k < data.size(); ++k)
            all.push_back(data[k] ? static_cast<std::byte>((all.size() + 1 + now.way) * 2654435761u >> 13) : gap);
    return all;
}

int receive(const Case& now, void* memory, MPI_Status& status) {
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Message message = MPI_MESSAGE_NULL;
    MPI_Datatype type = now.pair.type;
    int code = MPI_SUCCESS;
    switch (now.way) {
        case kRecv:
        case kRecvUnseen:
            return MPI_Recv(memory, now.room, type, 0, kTag, MPI_COMM_WORLD,
                            now.way == kRecv ? &status : MPI_STATUS_IGNORE);
        case kIrecv:
        case kIrecvUnseen:
            MPI_Irecv(memory, now.room, type, 0, kTag, MPI_COMM_WORLD, &request);
            return MPI_Wait(&request, now.way == kIrecv ? &status : MPI_STATUS_IGNORE);
        case kPersistent:
            MPI_Recv_init(memory, now.room, type, 0, kTag, MPI_COMM_WORLD, &request);
            MPI_Start(&request);
            code = MPI_Wait(&request, &status);
            MPI_Request_free(&request);
            return code;
        case kSendrecv:
        case kSendrecvUnseen:
            return MPI_Sendrecv(nullptr, 0, MPI_BYTE, MPI_PROC_NULL, 0, memory, now.room, type, 0, kTag, MPI_COMM_WORLD,
                                now.way == kSendrecv ? &status : MPI_STATUS_IGNORE);
        default:
            MPI_Mprobe(0, kTag, MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE);
            return MPI_Mrecv(memory, now.room, type, &message, &status);
    }
}

void receive(const Case& now) {
    const bool whole = now.room == kLarge;
    const bool seen = now.way != kRecvUnseen && now.way != kIrecvUnseen && now.way != kSendrecvUnseen;
    Bytes memory(extent_of(now.pair.type) * static_cast<std::size_t>(now.room), kGap);
    MPI_Status status;
    int mpi_class = MPI_SUCCESS;
    MPI_Error_class(receive(now, memory.data(), status), &mpi_class);
    now.expect(mpi_class == (whole ? MPI_SUCCESS : MPI_ERR_TRUNCATE), "the class of error");
    if (!whole || mpi_class != MPI_SUCCESS)
        return;
    now.expect(memory == content(now, now.room, kGap), "data, or the gaps");
    int count = 0;
    if (seen)
        MPI_Get_count(&status, now.pair.type, &count);
    now.expect(!seen || count == kLarge, "the status's count");
}

void send(const Case& now) {
    const gpu::Memory memory(Kind::kDevice, content(now, kLarge, std::byte{0x33}));
    MPI_Send(memory.at(0), kLarge, now.pair.type, 1, kTag, MPI_COMM_WORLD);
}

}  // namespace

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    gpu::Driver::get().use(rank % gpu::Driver::get().devices);
    const Pair pairs[] = {
        {"MPI_2INT", MPI_2INT},         {"MPI_FLOAT_INT", MPI_FLOAT_INT}, {"MPI_DOUBLE_INT", MPI_DOUBLE_INT},
        {"MPI_LONG_INT", MPI_LONG_INT}, {"MPI_SHORT_INT", MPI_SHORT_INT}, {"MPI_LONG_DOUBLE_INT", MPI_LONG_DOUBLE_INT}};
    for (const Pair& pair : pairs)
        for (int way = 0; way < kWays; ++way)
            for (const int room : kRooms) {
                const Case now{pair, static_cast<Way>(way), room};
                if (room == kFew && (way == kIrecv || way == kIrecvUnseen))
                    continue;  // the sender would not finish
                if (rank == 0)
                    send(now);
                else
                    receive(now);
            }
    MPI_Finalize();
    return failures == 0 ? 0 : 1;
}
