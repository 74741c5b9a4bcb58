#include "comm/job_messages.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <utility>

#include "call/private_comm.hpp"
#include "progress/keep_until.hpp"
#include "progress/wait.hpp"
#include "real.hpp"

namespace swy::comm {
namespace {

MPI_Comm control = MPI_COMM_NULL;
int own_rank = -1;  // in `control`

// How long an announcement waits for ranks that may not be in MPI.
constexpr double kAnnouncementSeconds = 20;

// Sent as bytes, small enough that MPI sends it at once, and as far as `content` is filled in.
struct Message {
    enum class Kind : std::int16_t { kFailed, kWaiting };
    OperationId what = 0;
    std::int32_t rank = 0;
    Kind kind = Kind::kFailed;
    std::int16_t bytes = 0;                // of the content
    std::array<std::byte, 496> content{};  // why it has failed; of a rank that waits, its answer
};
static_assert(sizeof(Message) == 512, "sent as bytes: no padding");
static_assert(sizeof(Message::content) == kMostNumbers * sizeof(std::int64_t));

// Failure messages received, by operation: two threads may wait for different ones, and each may receive the other's.
struct Received {
    struct Reports {
        int ranks = 0;
        Failure first;
    };
    std::mutex mutex;  // not held while MPI is called, which may run the engine and so come here again
    std::map<OperationId, Reports> failures;
    struct Waiting {
        OperationId what = 0;
        int rank = 0;
        Answer answer;
    };
    std::deque<Waiting> waiting;
    std::atomic<std::size_t> failed_operations{0};  // the size of `failures`: 0 as a rule, and asked often
    std::atomic_flag receiving = ATOMIC_FLAG_INIT;
};

// Receives of failure messages are always posted, so that MPI takes a message in whatever call it is, and the sender
// knows when.
struct Posted {
    Message message;
    MPI_Request request = MPI_REQUEST_NULL;
};
std::array<Posted, 4> posted;
std::size_t next_posted = 0;

int post(Posted& one) {
    one.message.what = 0;
    return real::Irecv(&one.message, sizeof one.message, MPI_BYTE, MPI_ANY_SOURCE, kFailureTag, control, &one.request);
}

// No message begins with 0, so MPI need not be asked before one has arrived.
bool has_come(Posted& one) {
    const volatile OperationId& what = one.message.what;
    int flag = 0;
    if (what == 0 || one.request == MPI_REQUEST_NULL)
        return false;
    real::Test(&one.request, &flag, MPI_STATUS_IGNORE);  // its code may tell of a rank that has failed meanwhile
    return flag != 0;
}
Received& received() {
    static auto* all = new Received;  // not destroyed at exit
    return *all;
}

void keep(const Message& message) {
    constexpr std::size_t kMostWaiting = 1 << 16;
    const std::scoped_lock lock(received().mutex);
    if (message.kind == Message::Kind::kWaiting) {
        Answer answer(static_cast<std::size_t>(message.bytes) / sizeof(std::int64_t));
        std::memcpy(answer.data(), message.content.data(), answer.size() * sizeof(std::int64_t));
        received().waiting.push_back({message.what, message.rank, std::move(answer)});
        if (received().waiting.size() > kMostWaiting)
            received().waiting.pop_front();
        return;
    }
    Received::Reports& reports = received().failures[message.what];
    if (reports.ranks++ == 0)
        reports.first = {message.rank, std::string(reinterpret_cast<const char*>(message.content.data()),
                                                   static_cast<std::size_t>(message.bytes))};
    received().failed_operations.store(received().failures.size(), std::memory_order_release);
}

// Returns how many ranks have reported their failure so far.
int reports_of(OperationId what, Failure* first) {
    if (received().failed_operations.load(std::memory_order_acquire) == 0)
        return 0;
    const std::scoped_lock lock(received().mutex);
    const auto it = received().failures.find(what);
    if (it == received().failures.end())
        return 0;
    if (first != nullptr)
        *first = it->second.first;
    return it->second.ranks;
}

// Does not block. Returns MPI's code. With `taken`, adds requests that are complete when the receivers have the
// message, which stays until then.
int send(const std::vector<int>& world, const std::shared_ptr<Message>& message,
         std::vector<MPI_Request>* taken = nullptr) {
    if (control == MPI_COMM_NULL)
        return MPI_ERR_COMM;
    const int bytes = static_cast<int>(offsetof(Message, content)) + message->bytes;
    for (const int peer : world) {
        if (peer == own_rank || peer < 0)
            continue;
        MPI_Request request = MPI_REQUEST_NULL;
        const auto isend = taken != nullptr ? real::Issend : real::Isend;
        if (const int rc = isend(message.get(), bytes, MPI_BYTE, peer, kFailureTag, control, &request);
            rc != MPI_SUCCESS)
            return rc;
        if (taken != nullptr) {
            taken->push_back(request);
            continue;
        }
        int done = 0;  // as a rule it is, for so short a message
        real::Test(&request, &done, MPI_STATUS_IGNORE);
        progress::keep_until(request, message);
    }
    return MPI_SUCCESS;
}

// What does not fit is cut.
std::shared_ptr<Message> message_of(Message::Kind kind, OperationId what, int rank, const void* content,
                                    std::size_t bytes) {
    auto message = std::make_shared<Message>(Message{what, rank, kind});
    bytes = std::min(bytes, message->content.size());
    message->bytes = static_cast<std::int16_t>(bytes);
    if (bytes != 0)
        std::memcpy(message->content.data(), content, bytes);
    return message;
}

std::shared_ptr<Message> failure(OperationId what, int rank, const std::string& why) {
    return message_of(Message::Kind::kFailed, what, rank, why.data(), why.size());
}

}  // namespace

int start_control() {
    int rc = call::make_private_comm(MPI_COMM_WORLD, &control);
    if (rc == MPI_SUCCESS)
        rc = real::Comm_rank(control, &own_rank);
    next_posted = 0;
    for (Posted& one : posted)
        rc = rc == MPI_SUCCESS ? post(one) : rc;
    return rc;
}

MPI_Comm control_communicator() {
    return control;
}

void stop_control() {
    if (control == MPI_COMM_NULL)
        return;
    for (Posted& one : posted) {
        if (one.request == MPI_REQUEST_NULL)
            continue;
        real::Cancel(&one.request);
        real::Wait(&one.request, MPI_STATUS_IGNORE);
    }
    real::Comm_free(&control);  // sets it to MPI_COMM_NULL
}

std::vector<int> ranks_in_world(const State& state) {
    std::vector<int> ranks(static_cast<std::size_t>(state.size)), world(ranks.size());
    std::iota(ranks.begin(), ranks.end(), 0);
    MPI_Group group = MPI_GROUP_NULL;
    MPI_Group all = MPI_GROUP_NULL;
    real::Comm_group(state.handle, &group);
    real::Comm_group(control, &all);
    real::Group_translate_ranks(group, state.size, ranks.data(), all, world.data());
    real::Group_free(&group);
    real::Group_free(&all);
    return world;
}

int tell_failure(const std::vector<int>& world, int rank, OperationId what, const std::string& why) {
    return send(world, failure(what, rank, why));
}

int tell_waiting(const std::vector<int>& world, int rank, OperationId what, const Answer& answer) {
    return send(world,
                message_of(Message::Kind::kWaiting, what, rank, answer.data(), answer.size() * sizeof(std::int64_t)));
}

Announcement::Announcement(const std::vector<int>& world, int rank, OperationId what, const std::string& why)
    : deadline_(kAnnouncementSeconds) {
    const std::shared_ptr<Message> message = failure(what, rank, why);
    send(world, message, &pending_);
    message_ = message;
}

Announcement::~Announcement() {
    for (const MPI_Request request : pending_)
        progress::keep_until(request, message_);
}

// Other ranks may announce something meanwhile, and wait for this rank to receive it.
bool Announcement::done() {
    receive_failures();
    int all = 0;
    const int rc = real::Testall(static_cast<int>(pending_.size()), pending_.data(), &all, MPI_STATUSES_IGNORE);
    return rc != MPI_SUCCESS || all != 0 || deadline_.passed();
}

std::map<int, Answer> ranks_waiting(OperationId what) {
    std::map<int, Answer> ranks;
    const std::scoped_lock lock(received().mutex);
    for (const Received::Waiting& one : received().waiting)
        if (one.what == what)
            ranks.emplace(one.rank, one.answer);
    return ranks;
}

void forget_waiting(OperationId what) {
    const std::scoped_lock lock(received().mutex);
    std::erase_if(received().waiting, [&](const Received::Waiting& one) { return one.what == what; });
}

void receive_failures() {
    if (control == MPI_COMM_NULL || received().receiving.test_and_set(std::memory_order_acquire))
        return;
    for (Posted* one = &posted[next_posted]; has_come(*one); one = &posted[next_posted]) {
        keep(one->message);
        post(*one);
        next_posted = (next_posted + 1) % posted.size();
    }
    received().receiving.clear(std::memory_order_release);
}

bool failure_known(OperationId what, Failure* first) {
    return reports_of(what, first) != 0;
}

bool received_failures_of(OperationId what, int others) {
    receive_failures();
    if (reports_of(what, nullptr) < others)
        return false;
    forget_failures(what);
    return true;
}

void forget_failures(OperationId what) {
    const std::scoped_lock lock(received().mutex);
    received().failures.erase(what);
    received().failed_operations.store(received().failures.size(), std::memory_order_release);
}

}  // namespace swy::comm
