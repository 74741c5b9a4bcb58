// Requests of ours behind MPI's handles, in arrays with MPI's own and the program's: each completion call completes
// them when their operation is done, says of each what its outcome says, and raises its error on its communicator.
// Driven from behind the wrappers, with operations that do nothing but wait.
// clang-format off
// launch: -n 1 --plain
// launch: -n 2 --plain
// test-timeout: 120
// clang-format on
#include <cstring>
#include <memory>
#include <thread>

#include "call/envelope.hpp"
#include "comm/state.hpp"
#include "progress/engine.hpp"
#include "progress/wait.hpp"
#include "real.hpp"
#include "request/complete.hpp"
#include "request/handle.hpp"
#include "ways.hpp"

namespace {

using namespace swy;
using progress::Outcome;
using ways::compare;
using ways::expect;
using ways::Said;
using ways::Wanted;
using ways::Way;

namespace calls = request::complete;
const ways::Functions kFunctions{calls::wait, calls::waitany, calls::waitall, calls::waitsome,
                                 calls::test, calls::testany, calls::testall, calls::testsome};

MPI_Comm asked_comm = MPI_COMM_NULL;
int times_asked = 0;
void ask(MPI_Comm* comm, int*, ...) {
    asked_comm = *comm;
    ++times_asked;
}

// Is done after some steps, or when it is cancelled.
class Waits final : public progress::Operation {
  public:
    Waits(MPI_Comm comm, int steps, Outcome outcome)
        : Operation(CallId::kIrecv, comm), steps_(steps), wanted_(std::move(outcome)) {}
    bool step() override {
        if (--steps_ != 0)
            return false;
        finish(wanted_);
        return true;
    }
    void cancel() override { finish({.cancelled = true, .text = {}}); }

  private:
    int steps_;
    Outcome wanted_;
};

std::shared_ptr<Waits> under_way(MPI_Comm comm, int steps, Outcome outcome) {
    auto operation = std::make_shared<Waits>(comm, steps, std::move(outcome));
    const progress::Hold hold;
    progress::add(operation);
    return operation;
}

MPI_Request ours(MPI_Comm comm, int steps, Outcome outcome) {
    MPI_Request made = MPI_REQUEST_NULL;
    expect(request::hand_out(under_way(comm, steps, std::move(outcome)), &made) == MPI_SUCCESS, "hand_out");
    return made;
}

MPI_Request persistent(MPI_Comm comm, int steps, Outcome outcome) {
    MPI_Request made = MPI_REQUEST_NULL;
    const auto start = [=](int&) { return under_way(comm, steps, outcome); };
    expect(request::hand_out_persistent(CallId::kRecvInit, comm, start, &made) == MPI_SUCCESS, "hand_out_persistent");
    return made;
}

// --- the program's own generalized request

int own_query(void*, MPI_Status* status) {
    status->MPI_SOURCE = 5;
    status->MPI_TAG = 6;
    MPI_Status_set_elements(status, MPI_BYTE, 7);
    MPI_Status_set_cancelled(status, 0);
    return MPI_SUCCESS;
}
int own_free(void* state) {
    ++*static_cast<int*>(state);
    return MPI_SUCCESS;
}
int own_cancel(void*, int) {
    return MPI_SUCCESS;
}

// --- watched receives

int arrived = 0;
constexpr int kTrueBytes = 5000;

// Stands for p2p: an envelope of a message that is too long for the receive.
std::shared_ptr<progress::Operation> settle(request::HostReceive& receive, const MPI_Status& status) {
    expect(progress::held_here(), "an envelope is settled without the lock");
    ++arrived;
    if (static_cast<std::byte*>(receive.address)[0] != std::byte{0xe})
        return nullptr;  // as many bytes, but the program's
    auto too_long = std::make_shared<Waits>(receive.comm, 1,
                                            Outcome{.source = status.MPI_SOURCE,
                                                    .tag = status.MPI_TAG,
                                                    .bytes = kTrueBytes,
                                                    .mpi_class = MPI_ERR_TRUNCATE,
                                                    .text = "it is too long"});
    too_long->step();
    return too_long;
}

struct Watched {
    std::vector<std::byte> memory;
    MPI_Request request = MPI_REQUEST_NULL;
};

void send_to_self(MPI_Comm comm, int rank, std::size_t bytes, std::byte first) {
    std::vector<std::byte> message(bytes, first);
    MPI_Send(message.data(), static_cast<int>(bytes), MPI_BYTE, rank, 9, comm);
}

void watch_one(MPI_Comm comm, int rank, Watched& watched, bool persistent_too) {
    watched.memory.resize(400);
    if (persistent_too)
        MPI_Recv_init(watched.memory.data(), 400, MPI_BYTE, rank, 9, comm, &watched.request);
    else
        MPI_Irecv(watched.memory.data(), 400, MPI_BYTE, rank, 9, comm, &watched.request);
    request::HostReceive receive{.address = watched.memory.data(),
                                 .count = 400,
                                 .bytes = 400,
                                 .layout = nullptr,
                                 .comm = comm,
                                 .call = CallId::kIrecv};
    const auto start = [](MPI_Request* request, int& code) {
        code = MPI_Start(request);
        return std::shared_ptr<progress::Operation>();
    };
    if (persistent_too)
        request::watch_persistent(watched.request, std::move(receive), start);
    else
        request::watch(watched.request, std::move(receive));
}

// --- the tests

// One array with a request of every kind.
void mixed(MPI_Comm comm, int rank, Way way) {
    const std::string what = ways::name(way);
    int freed = 0;
    MPI_Request program = MPI_REQUEST_NULL;
    MPI_Grequest_start(own_query, own_free, own_cancel, &freed, &program);
    Watched host;
    watch_one(comm, rank, host, false);
    MPI_Request again = persistent(comm, 4, {.source = 3, .tag = 12, .bytes = 33, .text = {}});
    const MPI_Request inactive = persistent(comm, 1, {});
    std::vector<MPI_Request> requests = {ours(comm, 3, {.source = 1, .tag = 2, .bytes = 1000, .text = {}}),
                                         MPI_REQUEST_NULL,
                                         host.request,
                                         again,
                                         inactive,
                                         program,
                                         ours(comm, 1, {})};
    expect(calls::start(&again) == MPI_SUCCESS, "start");
    expect(calls::start(&again) != MPI_SUCCESS, "an active request is started");
    send_to_self(comm, rank, 17, std::byte{1});
    MPI_Grequest_complete(program);
    const std::vector<Said> said = ways::complete(kFunctions, way, requests);
    const Wanted wanted[] = {{1, 2, 1000}, {}, {rank, 9, 17}, {3, 12, 33}, {}, {5, 6, 7}, {}};
    const bool names_all = said[1].completed;
    for (std::size_t i = 0; i < std::size(wanted); ++i) {
        const std::string which = what + ", request " + std::to_string(i);
        if (i != 1 && i != 4)
            expect(said[i].completed, which + " is not completed");
        if (names_all || (i != 1 && i != 4))
            compare(which, said[i].status, wanted[i]);
        expect(said[i].error == MPI_SUCCESS, which + " fails");
        expect((requests[i] == MPI_REQUEST_NULL) == (i != 3 && i != 4), which + " is left or gone");
    }
    expect(freed == 1, what + ": the program's request is not freed");
    expect(calls::start(&again) == MPI_SUCCESS && calls::wait(&again, MPI_STATUS_IGNORE) == MPI_SUCCESS,
           what + ": a persistent request does not start again");
    for (MPI_Request* request : {&requests[3], &requests[4]})
        expect(calls::free(request) == MPI_SUCCESS && *request == MPI_REQUEST_NULL, "free");
}

// A failed operation, an envelope in a receive that is too short, and a message that has an envelope's length.
void failing(MPI_Comm comm, int rank, Way way) {
    const std::string what = ways::name(way);
    MPI_Comm other = MPI_COMM_NULL;
    MPI_Comm_dup(comm, &other);
    Watched letter, payload;
    watch_one(comm, rank, letter, false);
    send_to_self(comm, rank, call::kEnvelopeBytes, std::byte{0xe});
    MPI_Request first = letter.request;
    watch_one(comm, rank, payload, false);
    send_to_self(comm, rank, call::kEnvelopeBytes, std::byte{0x1});
    MPI_Request lasting = persistent(comm, 2, {.mpi_class = MPI_ERR_OTHER, .text = "it fails as it shall, again"});
    calls::start(&lasting);
    std::vector<MPI_Request> requests = {
        ours(comm, 2, {.source = 0, .tag = 1, .bytes = 10, .text = {}}), first, payload.request, lasting,
        ours(comm, 1,
             {.source = 0, .tag = 1, .bytes = 10, .mpi_class = MPI_ERR_TRUNCATE, .text = "it fails as it shall"})};
    arrived = 0;
    times_asked = 0;
    const std::vector<Said> said = ways::complete(kFunctions, way, requests);
    const Wanted wanted[] = {{0, 1, 10},
                             {rank, 9, kTrueBytes, false, MPI_ERR_TRUNCATE},
                             {rank, 9, static_cast<int>(call::kEnvelopeBytes)},
                             {.error = MPI_ERR_OTHER},
                             {0, 1, 10, false, MPI_ERR_TRUNCATE}};
    for (std::size_t i = 0; i < std::size(wanted); ++i) {
        const std::string which = what + ", failing, request " + std::to_string(i);
        compare(which, said[i].status, wanted[i]);
        expect(said[i].error == wanted[i].error, which + ": error " + std::to_string(said[i].error));
    }
    expect(arrived == 2, what + ": " + std::to_string(arrived) + " messages of an envelope's length were looked at");
    expect(times_asked >= 1 && asked_comm == comm, what + ": another error handler is asked");
    calls::free(&lasting);
    MPI_Comm_free(&other);
}

void only_known_while_there(const std::string& after) {
    expect(progress::known_requests.load() == 0,
           after + ": " + std::to_string(progress::known_requests.load()) + " requests are still known");
}

void cancelled(MPI_Comm comm) {
    MPI_Request general = ours(comm, -1, {}), again = persistent(comm, -1, {});
    calls::start(&again);
    MPI_Status status;
    int flag = 1;
    for (MPI_Request* request : {&general, &again}) {
        expect(calls::get_status(*request, &flag, &status) == MPI_SUCCESS && flag == 0, "a request is done too early");
        expect(calls::cancel(request) == MPI_SUCCESS, "cancel");
        while (calls::get_status(*request, &flag, &status) == MPI_SUCCESS && flag == 0) {
        }
        compare("MPI_Request_get_status", status, {.cancelled = true});
        expect(calls::wait(request, &status) == MPI_SUCCESS, "the wait for a cancelled request");
        compare("a cancelled request", status, {.cancelled = true});
    }
    expect(calls::get_status(again, &flag, &status) == MPI_SUCCESS && flag != 0, "an inactive request is not done");
    compare("an inactive request", status, {});
    calls::free(&again);
}

// Freed while they are active, requests complete in the background. The memory of watched receives is not looked at any
// more: nobody else knows until when it is there.
void freed(MPI_Comm comm, int rank) {
    MPI_Request general = ours(comm, 5, {}), again = persistent(comm, 5, {});
    calls::start(&again);
    Watched host, lasting;
    watch_one(comm, rank, host, false);
    watch_one(comm, rank, lasting, true);
    calls::start(&lasting.request);
    arrived = 0;
    for (MPI_Request* request : {&general, &again, &host.request, &lasting.request})
        expect(calls::free(request) == MPI_SUCCESS && *request == MPI_REQUEST_NULL, "an active request is not freed");
    only_known_while_there("freeing active requests");
    send_to_self(comm, rank, call::kEnvelopeBytes, std::byte{0xe});
    send_to_self(comm, rank, call::kEnvelopeBytes, std::byte{0xe});
    for (int flag = 0; host.memory[0] != std::byte{0xe} || lasting.memory[0] != std::byte{0xe};)
        MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_SELF, &flag, MPI_STATUS_IGNORE);
    for (int turn = 0; turn < 1000; ++turn)
        progress::progress();
    expect(arrived == 0, "the memory of a freed receive is looked at");
}

// What an inactive persistent receive held before does not come again.
void persistent_watched(MPI_Comm comm, int rank, Way way) {
    Watched host;
    watch_one(comm, rank, host, true);
    for (int round = 0; round < 3; ++round) {
        arrived = 0;
        expect(calls::start(&host.request) == MPI_SUCCESS, "a watched receive does not start");
        send_to_self(comm, rank, call::kEnvelopeBytes, std::byte{0xe});
        std::vector<MPI_Request> requests = {host.request};
        expect(ways::complete(kFunctions, way, requests)[0].error == MPI_ERR_TRUNCATE, "no truncation");
        ways::complete(kFunctions, way, requests);
        expect(arrived == 1,
               std::string(ways::name(way)) + ": an envelope is answered " + std::to_string(arrived) + " times");
    }
    calls::free(&host.request);
}

// MPI_Request_get_status is the first to look, and the only one: the memory may be gone afterwards.
void looked_at_once(MPI_Comm comm, int rank, Way way) {
    for (const std::byte first : {std::byte{0xe}, std::byte{0x1}}) {
        Watched host;
        watch_one(comm, rank, host, false);
        send_to_self(comm, rank, call::kEnvelopeBytes, first);
        arrived = 0;
        MPI_Status status;
        for (int flag = 0; flag == 0;)
            calls::get_status(host.request, &flag, &status);
        const bool envelope = first == std::byte{0xe};
        const int bytes = envelope ? kTrueBytes : static_cast<int>(call::kEnvelopeBytes);
        compare("MPI_Request_get_status of a watched receive", status, {rank, 9, bytes});
        host.memory[0] = envelope ? std::byte{0x1} : std::byte{0xe};
        std::vector<MPI_Request> requests = {host.request};
        const std::vector<Said> said = ways::complete(kFunctions, way, requests);
        const int error = envelope ? MPI_ERR_TRUNCATE : MPI_SUCCESS;
        compare(ways::name(way), said[0].status, {rank, 9, bytes, false, error});
        expect(said[0].error == error, std::string(ways::name(way)) + ": the error after MPI_Request_get_status");
        expect(arrived == 1,
               std::string(ways::name(way)) + ": memory is looked at " + std::to_string(arrived) + " times");
    }
}

// An error after the communicator has been freed goes to MPI_COMM_WORLD.
void orphaned(MPI_Comm comm) {
    MPI_Comm gone = MPI_COMM_NULL;
    MPI_Comm_dup(comm, &gone);
    MPI_Request request = ours(gone, 3, {.mpi_class = MPI_ERR_OTHER, .text = "it fails as it shall"});
    MPI_Comm_free(&gone);
    times_asked = 0;
    expect(ways::class_of(calls::wait(&request, MPI_STATUS_IGNORE)) == MPI_ERR_OTHER, "the error is lost");
    expect(times_asked == 1 && asked_comm == MPI_COMM_WORLD, "the error of a freed communicator");
}

// Threads whose requests MPI gives the same addresses.
void threads(int rank) {
    const auto work = [&](MPI_Comm comm) {
        for (int i = 0; i < 3000; ++i) {
            Watched host;
            watch_one(comm, rank, host, false);
            MPI_Request general = i % 7 == 0 ? ours(comm, 2, {.bytes = 3, .text = {}}) : MPI_REQUEST_NULL;
            send_to_self(comm, rank, 8, std::byte{1});
            MPI_Request both[] = {host.request, general};
            expect(calls::waitall(2, both, MPI_STATUSES_IGNORE) == MPI_SUCCESS, "waitall of a thread");
        }
    };
    std::vector<MPI_Comm> comms(3);
    for (MPI_Comm& comm : comms)
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    std::vector<std::thread> running;
    for (MPI_Comm comm : comms)
        running.emplace_back(work, comm);
    for (std::thread& thread : running)
        thread.join();
    for (MPI_Comm& comm : comms)
        MPI_Comm_free(&comm);
}

void many(MPI_Comm comm) {
    std::vector<MPI_Request> requests;
    for (int i = 0; i < 2000; ++i)
        requests.push_back(ours(comm, 1 + i % 5, {.tag = i, .bytes = static_cast<std::size_t>(i), .text = {}}));
    const std::vector<Said> said = ways::complete(kFunctions, Way::kWaitsome, requests);
    for (int i = 0; i < 2000; ++i)
        compare("one of many requests", said[static_cast<std::size_t>(i)].status, {.tag = i, .bytes = i});
}

}  // namespace

int main(int argc, char** argv) {
    int provided = 0;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    comm::start();
    int up = 0;
    real::Initialized(&up);  // the engine asks where this function is
    progress::start_engine();
    request::envelope_arrived = settle;
    MPI_Comm comm = MPI_COMM_NULL;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
    MPI_Comm_create_errhandler(ask, &handler);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
    MPI_Comm_set_errhandler(comm, handler);
    for (Way way : ways::kWays) {
        mixed(comm, rank, way);
        failing(comm, rank, way);
        persistent_watched(comm, rank, way);
        looked_at_once(comm, rank, way);
        only_known_while_there(ways::name(way));
    }
    cancelled(comm);
    only_known_while_there("cancelled requests");
    freed(comm, rank);
    orphaned(comm);
    many(comm);
    if (provided == MPI_THREAD_MULTIPLE)
        threads(rank);
    only_known_while_there("all");
    MPI_Errhandler_free(&handler);
    MPI_Comm_free(&comm);
    progress::stop_engine();
    request::release_handles();
    comm::stop();
    MPI_Finalize();
    return ways::failures != 0;
}
