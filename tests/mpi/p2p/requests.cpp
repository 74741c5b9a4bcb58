// Arrays that mix requests of host and device messages, small and large, persistent, null, inactive, and the program's
// own: every completion call completes them, with the right status for each, and errors go where they belong.
// clang-format off
// launch: -n 2 --gpus 2
// launch: -n 2 --gpus 1
// launch: -n 4 --gpus 4 -x VGPU_JITTER=5
// launch: -n 2 --gpus 2 -x SWITCHYARD_NCCL=0
// test-timeout: 240
// clang-format on
#include <memory>

#include "../gpu.hpp"
#include "ways.hpp"

namespace {

using gpu::Kind;
using gpu::Memory;
using ways::compare;
using ways::expect;
using ways::Said;
using ways::Wanted;
using ways::Way;

const ways::Functions kFunctions{MPI_Wait, MPI_Waitany, MPI_Waitall, MPI_Waitsome,
                                 MPI_Test, MPI_Testany, MPI_Testall, MPI_Testsome};

constexpr int kSmall = 300;      // bytes; an ordinary message
constexpr int kLarge = 300000;   // over every threshold
constexpr int kTooSmall = 5000;  // holds an envelope, but not a large message
constexpr int kTiny = 3;         // holds nothing
constexpr int kJust = 101;       // holds just what stands in for a large message

struct Job {
    MPI_Comm comm = MPI_COMM_NULL;
    int rank = 0;
    int peer = 0;
};

std::vector<std::byte> content(int rank, int tag, int bytes) {
    std::vector<std::byte> made(static_cast<std::size_t>(bytes));
    for (std::size_t i = 0; i < made.size(); ++i)
        made[i] = static_cast<std::byte>(i * 7 + i / 256 + static_cast<std::size_t>(rank * 31 + tag));
    return made;
}

int query(void*, MPI_Status* status) {
    status->MPI_SOURCE = 5;
    status->MPI_TAG = 6;
    MPI_Status_set_elements(status, MPI_BYTE, 7);
    MPI_Status_set_cancelled(status, 0);
    return MPI_SUCCESS;
}
int free_own(void* state) {
    ++*static_cast<int*>(state);
    return MPI_SUCCESS;
}
int cancel_own(void*, int) {
    return MPI_SUCCESS;
}

// One message each way, with its own tag.
struct Message {
    Kind from, to;
    int bytes;
    bool persistent;
};
constexpr Message kMessages[] = {
    {Kind::kDevice, Kind::kDevice, kLarge, false}, {Kind::kHost, Kind::kHost, kSmall, false},
    {Kind::kDevice, Kind::kHost, kLarge, false},   {Kind::kDevice, Kind::kDevice, kSmall, false},
    {Kind::kDevice, Kind::kDevice, kLarge, true},  {Kind::kHost, Kind::kDevice, kLarge, true},
    {Kind::kHost, Kind::kHost, kLarge, true},      {Kind::kManaged, Kind::kPinned, kLarge, false},
};
constexpr int kCount = static_cast<int>(std::size(kMessages));

// Request 2k receives message k, request 2k + 1 sends it; then null, inactive and the program's own.
struct Array {
    std::vector<Memory> in, out;
    std::vector<MPI_Request> requests;
    int freed = 0;
    Memory idle{Kind::kDevice, 100};

    explicit Array(const Job& job) {
        for (int tag = 0; tag < kCount; ++tag)
            add(job, kMessages[tag], tag);
        requests.push_back(MPI_REQUEST_NULL);
        requests.emplace_back();
        MPI_Recv_init(idle.at(0), 100, MPI_BYTE, job.peer, kCount, job.comm, &requests.back());
        requests.emplace_back();
        MPI_Grequest_start(query, free_own, cancel_own, &freed, &requests.back());
    }

    void add(const Job& job, const Message& message, int tag) {
        in.emplace_back(message.to, static_cast<std::size_t>(message.bytes));
        out.emplace_back(message.from, content(job.rank, tag, message.bytes));
        MPI_Request pair[2];
        (message.persistent ? MPI_Recv_init : MPI_Irecv)(in.back().at(0), message.bytes, MPI_BYTE, job.peer, tag,
                                                         job.comm, &pair[0]);
        (message.persistent ? MPI_Send_init : MPI_Isend)(out.back().at(0), message.bytes, MPI_BYTE, job.peer, tag,
                                                         job.comm, &pair[1]);
        requests.insert(requests.end(), pair, pair + 2);
    }

    void start_persistent() {
        for (int tag = 0; tag < kCount; ++tag)
            if (kMessages[tag].persistent)
                MPI_Startall(2, &requests[static_cast<std::size_t>(2 * tag)]);
    }

    void end() {
        for (MPI_Request& request : requests)
            if (request != MPI_REQUEST_NULL)
                MPI_Request_free(&request);
    }
};

void check_data(const Job& job, const Array& array, const std::string& what) {
    for (int tag = 0; tag < kCount; ++tag)
        expect(array.in[static_cast<std::size_t>(tag)].read() == content(job.peer, tag, kMessages[tag].bytes),
               what + ": wrong data in message " + std::to_string(tag));
}

void mixed(const Job& job, Way way) {
    const std::string what = ways::name(way);
    Array array(job);
    array.start_persistent();
    MPI_Grequest_complete(array.requests.back());
    const std::vector<Said> said = ways::complete(kFunctions, way, array.requests);
    check_data(job, array, what);
    for (std::size_t i = 0; i < said.size(); ++i) {
        const std::string which = what + ", request " + std::to_string(i);
        const int tag = static_cast<int>(i / 2);
        const bool message = tag < kCount;
        const bool stays = message ? kMessages[tag].persistent : i == said.size() - 2;
        expect(said[i].error == MPI_SUCCESS, which + " fails");
        expect((array.requests[i] != MPI_REQUEST_NULL) == stays, which + " is left or gone");
        // What MPI says of a send's source and tag is not defined (MPI 4.0 section 3.7.3).
        if (message && i % 2 == 0)
            compare(which, said[i].status, {job.peer, tag, kMessages[tag].bytes});
        else if (i == said.size() - 1)
            compare(which, said[i].status, {5, 6, 7});
        else if (!message && said[i].completed && way != Way::kTestall)  // Open MPI 4.1 says what was before
            compare(which, said[i].status, {});
    }
    expect(array.freed == 1, what + ": the program's own request is not freed");
    // The persistent ones go round once more.
    array.start_persistent();
    ways::complete(kFunctions, way, array.requests);
    check_data(job, array, what + ", once more");
    array.end();
}

// Receives that are too short for a large message from a device: the sender finishes, the receiver hears of it, and so
// does its communicator alone.
void truncated(const Job& job, Way way) {
    const std::string what = std::string(ways::name(way)) + ", truncated";
    const std::pair<Kind, int> receives[] = {
        {Kind::kDevice, kTooSmall}, {Kind::kHost, kTooSmall}, {Kind::kHost, kJust}, {Kind::kDevice, kTiny}};
    std::vector<Memory> in;
    const Memory out(Kind::kDevice, content(job.rank, 0, kLarge));
    std::vector<MPI_Request> requests;
    for (int i = 0; i < 4; ++i) {
        in.emplace_back(receives[i].first, static_cast<std::size_t>(receives[i].second));
        requests.emplace_back();
        MPI_Irecv(in.back().at(0), receives[i].second, MPI_BYTE, job.peer, i, job.comm, &requests.back());
    }
    Memory whole(Kind::kDevice, kLarge);
    requests.emplace_back();
    MPI_Irecv(whole.at(0), kLarge, MPI_BYTE, job.peer, 4, job.comm, &requests.back());
    std::vector<MPI_Request> sends(5);
    for (int i = 0; i < 5; ++i)
        MPI_Isend(out.at(0), kLarge, MPI_BYTE, job.peer, i, job.comm, &sends[static_cast<std::size_t>(i)]);
    // Both ranks may wait for their sends first: those finish whether or not the receives have been completed.
    const bool sends_first = static_cast<int>(way) % 2 == 0;
    if (sends_first)
        expect(MPI_Waitall(5, sends.data(), MPI_STATUSES_IGNORE) == MPI_SUCCESS, what + ": the sends, first");
    const std::vector<Said> said = ways::complete(kFunctions, way, requests);
    for (std::size_t i = 0; i < said.size(); ++i) {
        const std::string which = what + ", request " + std::to_string(i);
        expect(said[i].error == (i < 4 ? MPI_ERR_TRUNCATE : MPI_SUCCESS),
               which + ": error class " + std::to_string(said[i].error));
        expect(said[i].status.MPI_SOURCE == job.peer, which + ": source");
        expect(said[i].status.MPI_TAG == static_cast<int>(i), which + ": tag");
    }
    expect(MPI_Waitall(5, sends.data(), MPI_STATUSES_IGNORE) == MPI_SUCCESS, what + ": the sends");
    expect(whole.read() == content(job.peer, 0, kLarge), what + ": the receive that is long enough");
}

void looked_at(const Job& job) {
    Array array(job);
    array.start_persistent();
    MPI_Grequest_complete(array.requests.back());
    for (std::size_t i = 0; i < 2 * kCount; ++i) {
        const std::string which = "MPI_Request_get_status, request " + std::to_string(i);
        MPI_Status status;
        for (int flag = 0; flag == 0;)
            expect(MPI_Request_get_status(array.requests[i], &flag, &status) == MPI_SUCCESS, which);
        expect(array.requests[i] != MPI_REQUEST_NULL, which + " frees");
        const int tag = static_cast<int>(i / 2);
        if (i % 2 == 0)
            compare(which, status, {job.peer, tag, kMessages[tag].bytes});
    }
    ways::complete(kFunctions, Way::kWaitall, array.requests);
    check_data(job, array, "MPI_Request_get_status");
    array.end();
}

void cancelled(const Job& job) {
    const Memory memory(Kind::kDevice, kLarge);
    MPI_Request requests[2];
    MPI_Irecv(memory.at(0), kLarge, MPI_BYTE, job.peer, 77, job.comm, &requests[0]);
    MPI_Recv_init(memory.at(0), kLarge, MPI_BYTE, job.peer, 78, job.comm, &requests[1]);
    MPI_Start(&requests[1]);
    for (MPI_Request& request : requests) {
        MPI_Cancel(&request);
        MPI_Status status;
        expect(MPI_Wait(&request, &status) == MPI_SUCCESS, "the wait for a cancelled receive");
        int flag = 0;
        MPI_Test_cancelled(&status, &flag);
        expect(flag != 0, "a receive that nobody sends to is not cancelled");
    }
    MPI_Request_free(&requests[1]);
}

// A small message that has come before its receive is there when the receive returns, so the first test finds it, as
// programs expect of MPI; also where an earlier receive into the same buffer has not been completed yet, and where many
// others are under way.
void there_already(const Job& job) {
    const Memory memory(Kind::kDevice, kSmall);
    std::vector<MPI_Request> waiting(40);
    for (MPI_Request& request : waiting)
        MPI_Irecv(memory.at(0), kSmall, MPI_BYTE, job.rank, 8, job.comm, &request);
    const std::vector<std::byte> sent = content(job.rank, 7, kSmall);
    std::vector<std::byte> into(sent.size());
    for (const bool matched : {true, false}) {
        MPI_Request sends[2], receives[2];
        for (MPI_Request& request : sends)
            MPI_Isend(sent.data(), kSmall, MPI_BYTE, job.rank, 7, job.comm, &request);
        for (MPI_Request& request : receives) {
            int flag = 0;
            MPI_Message message = MPI_MESSAGE_NULL;
            while (flag == 0)
                matched ? MPI_Improbe(job.rank, 7, job.comm, &flag, &message, MPI_STATUS_IGNORE)
                        : MPI_Iprobe(job.rank, 7, job.comm, &flag, MPI_STATUS_IGNORE);
            matched ? MPI_Imrecv(into.data(), kSmall, MPI_BYTE, &message, &request)
                    : MPI_Irecv(into.data(), kSmall, MPI_BYTE, job.rank, 7, job.comm, &request);
        }
        int flag = 0;
        MPI_Testall(2, receives, &flag, MPI_STATUSES_IGNORE);
        expect(flag != 0, std::string("a message that was there is not received by ") +
                              (matched ? "MPI_Imrecv" : "MPI_Irecv") + " and MPI_Testall");
        MPI_Waitall(2, receives, MPI_STATUSES_IGNORE);
        MPI_Waitall(2, sends, MPI_STATUSES_IGNORE);
        expect(into == sent, "the data of messages that were there");
    }
    for (MPI_Request& request : waiting)
        MPI_Cancel(&request);
    MPI_Waitall(static_cast<int>(waiting.size()), waiting.data(), MPI_STATUSES_IGNORE);
}

// Requests freed while they are active complete all the same.
void freed(const Job& job) {
    const Memory out(Kind::kDevice, content(job.rank, 1, kLarge));
    const Memory in(Kind::kDevice, kLarge), again(Kind::kDevice, kLarge);
    MPI_Request sends[2], receives[2];
    MPI_Isend(out.at(0), kLarge, MPI_BYTE, job.peer, 1, job.comm, &sends[0]);
    MPI_Send_init(out.at(0), kLarge, MPI_BYTE, job.peer, 2, job.comm, &sends[1]);
    MPI_Start(&sends[1]);
    for (MPI_Request& request : sends) {
        MPI_Request_free(&request);
        expect(request == MPI_REQUEST_NULL, "MPI_Request_free leaves the handle");
    }
    MPI_Irecv(in.at(0), kLarge, MPI_BYTE, job.peer, 1, job.comm, &receives[0]);
    MPI_Irecv(again.at(0), kLarge, MPI_BYTE, job.peer, 2, job.comm, &receives[1]);
    MPI_Waitall(2, receives, MPI_STATUSES_IGNORE);
    expect(in.read() == content(job.peer, 1, kLarge) && again.read() == content(job.peer, 1, kLarge),
           "the data of sends whose requests were freed");
    MPI_Barrier(job.comm);  // the sends' memory stays until the peer has it
}

}  // namespace

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    Job job;
    MPI_Comm_rank(MPI_COMM_WORLD, &job.rank);
    job.peer = job.rank ^ 1;
    gpu::Driver::get().use(job.rank % gpu::Driver::get().devices);
    // MPI_COMM_WORLD's handler stays the fatal one: an error that asks it ends the test.
    MPI_Comm_dup(MPI_COMM_WORLD, &job.comm);
    MPI_Comm_set_errhandler(job.comm, MPI_ERRORS_RETURN);
    for (Way way : ways::kWays) {
        mixed(job, way);
        truncated(job, way);
    }
    looked_at(job);
    cancelled(job);
    there_already(job);
    freed(job);
    MPI_Comm_free(&job.comm);
    MPI_Finalize();
    return ways::failures != 0;
}
