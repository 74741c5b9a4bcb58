#include "report/watchdog.hpp"

#include <fmt/format.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "report/flight_file.hpp"
#include "report/flights.hpp"
#include "report/processes.hpp"
#include "report/units.hpp"

namespace swy::report::watchdog {

constinit std::atomic<std::int64_t> looked_after{0};

namespace {

constexpr double kGrowth = 5;     // from one time that something is said to the next
constexpr double kLooks = 8;      // in the time of SWITCHYARD_STALL
constexpr double kFresh = 2;      // seconds in which a wait that speaks for itself looks at the clock again
constexpr std::size_t kMost = 6;  // different things that ranks are in, of which a line has more than their number

struct Calls {
    std::string job;
    Limits limits;
    Oldest oldest = nullptr;  // null: calls are not watched
};

// The oldest call at the last look.
struct Watched {
    std::uint64_t number = 0;
    double next = 0;  // it is told when it has lasted that long
};

struct Streams {
    void (*look)() = nullptr;
    double period = 0;
};

struct Thread {
    std::mutex mutex;
    std::condition_variable wakes;
    bool ends = false;
    Calls calls;
    Streams streams;
    std::thread thread;  // none where it could not be made

    double period() const {
        const double of_calls = calls.limits.first() / kLooks;
        return streams.look == nullptr   ? of_calls
               : calls.oldest == nullptr ? streams.period
                                         : std::min(of_calls, streams.period);
    }
};
std::mutex starts;          // guards `running`
Thread* running = nullptr;  // not destroyed at exit, when it may be running

// What a process is in, without the time.
std::string is_in(const Flight& flight) {
    if (!flight.lives)
        return end_in_words(flight);
    const FlightOperation* open = nullptr;
    for (const FlightOperation& operation : flight.operations)
        if (!operation.ended && (open == nullptr || (blocking(operation.call) && !blocking(open->call))))
            open = &operation;
    if (open != nullptr)
        return "in " + in_words(*open);
    return flight.operations.empty() ? "has recorded no call yet"
                                     : fmt::format("in no recorded call since {}", name(flight.operations.back().call));
}

// All processes of the job on this host: "ranks 0 to 2: in MPI_Allreduce on ...; rank 3: in no recorded call since
// ...".
std::string what_ranks_are_in(const std::vector<const Flight*>& job) {
    std::vector<std::pair<std::string, std::vector<int>>> groups;
    for (const Flight* flight : job) {
        std::string words = is_in(*flight);
        const auto same = std::find_if(groups.begin(), groups.end(), [&](const auto& g) { return g.first == words; });
        if (same != groups.end())
            same->second.push_back(flight->rank);
        else
            groups.emplace_back(std::move(words), std::vector{flight->rank});
    }
    std::string text;
    for (std::size_t i = 0; i < std::min(groups.size(), kMost); ++i)
        text += fmt::format("{}{}: {}", i == 0 ? "" : "; ", ranks_in_words(groups[i].second), groups[i].first);
    if (groups.size() > kMost)
        text += fmt::format("; and others in {} more", groups.size() - kMost);
    return text;
}

bool waits_in_mpi(const FlightOperation& operation) {
    const Family its = family(operation.call);
    return operation.routed && operation.carrier == Carrier::kStaged && blocking(operation.call) &&
           (its == Family::kCollective || its == Family::kReduction || its == Family::kNeighborhood);
}

// Returns false where nothing is to be said so far.
bool say(const Calls& me, std::uint64_t number, double lasted) {
    std::vector<std::string> problems;
    const std::vector<Flight> all = read_flights(std::string(flight::kFolder), problems);
    std::vector<const Flight*> job;
    for (const Flight& flight : all)
        if (flight.job == me.job)
            job.push_back(&flight);
    std::sort(job.begin(), job.end(), [](const Flight* a, const Flight* b) { return a->rank < b->rank; });
    const auto self =
        std::find_if(job.begin(), job.end(), [](const Flight* flight) { return flight->pid == getpid(); });
    if (self == job.end())
        return true;
    const auto& operations = (*self)->operations;
    const auto found = std::find_if(operations.begin(), operations.end(),
                                    [&](const FlightOperation& operation) { return operation.number == number; });
    if (found == operations.end() || found->ended)
        return true;
    const bool late = me.limits.timeout > 0 && lasted >= me.limits.timeout && waits_in_mpi(*found);
    if (!late && (me.limits.stall <= 0 || lasted < me.limits.stall))
        return false;
    if (may_tell(*job.front(), me.limits.first() / 2)) {
        std::string text =
            fmt::format("switchyard: rank {} is in {}. This has lasted {} so far ({}). The ranks here: {}.",
                        (*self)->rank, in_words(*found), time_text(lasted),
                        late ? "SWITCHYARD_TIMEOUT" : "SWITCHYARD_STALL", what_ranks_are_in(job));
        for (const std::string& finding : findings(job))
            text += " " + finding;
        if (late)
            text += me.limits.ends_job
                        ? " The job ends here (SWITCHYARD_ON_FAILURE=abort)."
                        : " MPI's own call waits, which cannot be ended: SWITCHYARD_ON_FAILURE=abort ends the job.";
        std::fputs((text + "\n").c_str(), stderr);
    }
    if (late && me.limits.ends_job)
        kill(getpid(), SIGTERM);
    return true;
}

void look_at_calls(const Calls& calls, Watched& watched) {
    std::uint64_t number = 0;
    const double lasted = calls.oldest(number);
    if (std::exchange(watched.number, number) != number)
        watched.next = calls.limits.first();
    const double since_look = static_cast<double>(monotonic_nanoseconds() - looked_after.load()) * 1e-9;
    if (number == 0 || lasted < watched.next || since_look < kFresh)
        return;
    try {
        const bool said = say(calls, number, lasted);
        watched.next = said ? lasted * kGrowth : lasted;
    } catch (const std::exception&) {
        std::fprintf(stderr, "switchyard: a call has lasted %.1f s so far (SWITCHYARD_STALL)\n", lasted);
        watched.next = lasted * kGrowth;
    }
}

// The mutex is free while it looks: whoever has something else watched need not wait for that.
void watch(Thread& me) {
    Watched watched;
    std::unique_lock lock(me.mutex);
    while (!me.ends) {
        me.wakes.wait_for(lock, std::chrono::duration<double>(me.period()));
        if (me.ends)
            break;
        const Calls calls = me.calls;
        const Streams streams = me.streams;
        lock.unlock();
        if (streams.look != nullptr)
            streams.look();
        if (calls.oldest != nullptr)
            look_at_calls(calls, watched);
        lock.lock();
    }
}

// Called under the mutex of `starts`.
Thread& thread() {
    if (running == nullptr)
        running = new Thread;
    return *running;
}

// The same. The program's signals are for its own threads.
void run(Thread& made) {
    if (made.thread.joinable()) {
        made.wakes.notify_one();
        return;
    }
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    try {
        made.thread = std::thread([&made] { watch(made); });
    } catch (const std::exception&) {  // nothing is watched then
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

}  // namespace

void watch_calls(const std::string& job, const Limits& limits, Oldest oldest) {
    if (limits.first() <= 0)
        return;
    const std::scoped_lock lock(starts);
    Thread& made = thread();
    {
        const std::scoped_lock its(made.mutex);
        made.calls = {.job = job, .limits = limits, .oldest = oldest};
    }
    run(made);
}

void watch_streams(void (*look)(), double period) {
    const std::scoped_lock lock(starts);
    Thread& made = thread();
    {
        const std::scoped_lock its(made.mutex);
        made.streams = {.look = look, .period = period};
    }
    run(made);
}

void stop() {
    const std::scoped_lock lock(starts);
    Thread* const ended = std::exchange(running, nullptr);
    if (ended == nullptr)
        return;
    {
        const std::scoped_lock its(ended->mutex);
        ended->ends = true;
    }
    ended->wakes.notify_one();
    if (ended->thread.joinable())
        ended->thread.join();
    delete ended;
}

}  // namespace swy::report::watchdog
