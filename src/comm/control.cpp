#include "comm/control.hpp"

#include <array>
#include <atomic>
#include <deque>
#include <map>
#include <mutex>
#include <numeric>
#include <utility>

#include "real.hpp"
#include "request/wait.hpp"

namespace swy::comm {
namespace {

MPI_Comm control = MPI_COMM_NULL;

// Fixed in size, sent as bytes: small enough that MPI sends it at once.
struct Word {
    Undertaking what = 0;
    std::int32_t rank = 0;
    std::int32_t waiting = 0;  // 0: it has failed
    std::array<char, 496> why{};
};
static_assert(sizeof(Word) == 512, "sent as bytes: no padding");

// Words heard, by undertaking: two threads may wait for different ones, and each may receive the other's. And those
// that this process has sent, which are few and stay: MPI may still be reading them.
struct Heard {
    struct Told {
        int ranks = 0;
        Failure first;
    };
    std::mutex mutex;  // not held while MPI is called, which may run the engine and so come here again
    std::map<Undertaking, Told> failures;
    std::deque<std::pair<Undertaking, int>> waiting;  // ranks
    std::atomic<std::size_t> undertakings{0};         // the map's size: none as a rule, and that is asked often
    std::deque<Word> sent;
    std::atomic_flag receiving = ATOMIC_FLAG_INIT;
};
Heard& heard() {
    static auto* all = new Heard;  // not destroyed at exit
    return *all;
}

void keep(const Word& word) {
    constexpr std::size_t kMostWaiting = 1024;
    const std::scoped_lock lock(heard().mutex);
    if (word.waiting != 0) {
        heard().waiting.emplace_back(word.what, word.rank);
        if (heard().waiting.size() > kMostWaiting)
            heard().waiting.pop_front();
        return;
    }
    Heard::Told& told = heard().failures[word.what];
    if (told.ranks++ == 0)
        told.first = {word.rank, word.why.data()};
    heard().undertakings.store(heard().failures.size(), std::memory_order_release);
}

// How many ranks have told so far.
int told_by(Undertaking what, Failure* first) {
    if (heard().undertakings.load(std::memory_order_acquire) == 0)
        return 0;
    const std::scoped_lock lock(heard().mutex);
    const auto it = heard().failures.find(what);
    if (it == heard().failures.end())
        return 0;
    if (first != nullptr)
        *first = it->second.first;
    return it->second.ranks;
}

// Does not block. MPI's code.
int send(const std::vector<int>& world, const Word& said) {
    if (control == MPI_COMM_NULL)
        return MPI_ERR_COMM;
    Word* word = nullptr;
    {
        const std::scoped_lock lock(heard().mutex);
        word = &heard().sent.emplace_back(said);
    }
    for (std::size_t peer = 0; peer < world.size(); ++peer) {
        if (static_cast<int>(peer) == said.rank)
            continue;
        MPI_Request request = MPI_REQUEST_NULL;
        if (const int rc = real::Isend(word, sizeof *word, MPI_BYTE, world[peer], kFailureTag, control, &request);
            rc != MPI_SUCCESS)
            return rc;
        real::Request_free(&request);
    }
    return MPI_SUCCESS;
}

}  // namespace

int start_control() {
    const int rc = real::Comm_dup(MPI_COMM_WORLD, &control);
    return rc != MPI_SUCCESS ? rc : real::Comm_set_errhandler(control, MPI_ERRORS_RETURN);
}

MPI_Comm control_communicator() {
    return control;
}

void stop_control() {
    if (control != MPI_COMM_NULL)
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

int tell_failure(const std::vector<int>& world, int rank, Undertaking what, const std::string& why) {
    Word word{what, rank};
    why.copy(word.why.data(), word.why.size() - 1);
    return send(world, word);
}

int tell_waiting(const std::vector<int>& world, int rank, Undertaking what) {
    return send(world, {what, rank, 1});
}

std::vector<int> ranks_waiting(Undertaking what) {
    std::vector<int> ranks;
    const std::scoped_lock lock(heard().mutex);
    for (const auto& [whose, rank] : heard().waiting)
        if (whose == what)
            ranks.push_back(rank);
    return ranks;
}

void hear_failures() {
    if (control == MPI_COMM_NULL || heard().receiving.test_and_set(std::memory_order_acquire))
        return;
    int there = 0;
    MPI_Message message = MPI_MESSAGE_NULL;
    while (real::Improbe(MPI_ANY_SOURCE, kFailureTag, control, &there, &message, MPI_STATUS_IGNORE) == MPI_SUCCESS &&
           there) {
        Word word;
        real::Mrecv(&word, sizeof word, MPI_BYTE, &message, MPI_STATUS_IGNORE);
        keep(word);
    }
    heard().receiving.clear(std::memory_order_release);
}

bool failure_told(Undertaking what, Failure* first) {
    return told_by(what, first) != 0;
}

void hear_out(Undertaking what, int others) {
    while (told_by(what, nullptr) < others) {
        hear_failures();
        request::progress();
    }
    forget_failures(what);
}

void forget_failures(Undertaking what) {
    const std::scoped_lock lock(heard().mutex);
    heard().failures.erase(what);
    heard().undertakings.store(heard().failures.size(), std::memory_order_release);
}

}  // namespace swy::comm
