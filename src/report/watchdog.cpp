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

struct Thread {
    Thread(std::string name, double seconds, Oldest asked) : job(std::move(name)), stall(seconds), oldest(asked) {}

    const std::string job;
    const double stall;
    const Oldest oldest;
    std::mutex mutex;
    std::condition_variable wakes;
    bool ends = false;
    std::thread thread;
};
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

void say(const Thread& me, std::uint64_t number, double lasted) {
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
        return;
    const auto& operations = (*self)->operations;
    const auto found = std::find_if(operations.begin(), operations.end(),
                                    [&](const FlightOperation& operation) { return operation.number == number; });
    if (found == operations.end() || found->ended || !may_tell(*job.front(), me.stall / 2))
        return;
    std::string text =
        fmt::format("switchyard: rank {} is in {}. This has lasted {} so far (SWITCHYARD_STALL). The ranks here: {}.",
                    (*self)->rank, in_words(*found), time_text(lasted), what_ranks_are_in(job));
    for (const std::string& finding : findings(job))
        text += " " + finding;
    std::fputs((text + "\n").c_str(), stderr);
}

void watch(Thread& me) {
    std::uint64_t watched = 0;
    double next = me.stall;
    std::unique_lock lock(me.mutex);
    while (!me.wakes.wait_for(lock, std::chrono::duration<double>(me.stall / kLooks), [&] { return me.ends; })) {
        std::uint64_t number = 0;
        const double lasted = me.oldest(number);
        if (std::exchange(watched, number) != number)
            next = me.stall;
        const double since_look = static_cast<double>(monotonic_nanoseconds() - looked_after.load()) * 1e-9;
        if (number == 0 || lasted < next || since_look < kFresh)
            continue;
        next = lasted * kGrowth;
        try {
            say(me, number, lasted);
        } catch (const std::exception&) {
            std::fprintf(stderr, "switchyard: a call has lasted %.1f s so far (SWITCHYARD_STALL)\n", lasted);
        }
    }
}

}  // namespace

void start(const std::string& job, double stall, Oldest oldest) {
    if (stall <= 0 || running != nullptr)
        return;
    auto* const made = new Thread(job, stall, oldest);
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);  // the program's signals are for its own threads
    try {
        made->thread = std::thread([made] { watch(*made); });
        running = made;
    } catch (const std::exception&) {
        delete made;
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void stop() {
    Thread* const ended = std::exchange(running, nullptr);
    if (ended == nullptr)
        return;
    {
        const std::scoped_lock lock(ended->mutex);
        ended->ends = true;
    }
    ended->wakes.notify_one();
    ended->thread.join();
    delete ended;
}

}  // namespace swy::report::watchdog
