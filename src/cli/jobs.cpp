#include "cli/jobs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <tuple>
#include <utility>

#include "config.h"
#include "report/counters.hpp"
#include "report/flight_file.hpp"
#include "report/processes.hpp"
#include "report/units.hpp"

namespace swy::cli {

bool Job::lives() const {
    return std::any_of(flights.begin(), flights.end(), [](const report::Flight* flight) { return flight->lives; });
}

bool Job::is_one_of(const std::vector<std::string>& wanted) const {
    return std::any_of(wanted.begin(), wanted.end(), [&](const std::string& one) {
        return one == name || std::any_of(flights.begin(), flights.end(), [&](const report::Flight* flight) {
                   return !flight->pid_is_anothers && one == std::to_string(flight->pid);
               });
    });
}

bool Job::waits() const {
    return std::any_of(flights.begin(), flights.end(), [](const report::Flight* flight) {
        return std::any_of(flight->operations.begin(), flight->operations.end(),
                           [](const report::FlightOperation& operation) { return !operation.ended; });
    });
}

double Job::age() const {
    double least = 1e18;
    for (const report::Flight* flight : flights)
        for (const report::FlightOperation& operation : flight->operations)
            least = std::min(least, operation.ended ? operation.ended_ago : operation.age);
    return least;
}

std::vector<Job> jobs_of(const std::vector<report::Flight>& flights) {
    std::map<std::string, Job> by_name;
    for (const report::Flight& flight : flights) {
        Job& job = by_name[flight.job];
        job.name = flight.job;
        job.flights.push_back(&flight);
    }
    std::vector<Job> jobs;
    for (auto& [name, job] : by_name) {
        std::sort(job.flights.begin(), job.flights.end(),
                  [](const report::Flight* a, const report::Flight* b) { return a->rank < b->rank; });
        jobs.push_back(std::move(job));
    }
    return jobs;
}

namespace {

// Appends to a text.
template <typename... Arguments>
void put(std::string& text, fmt::format_string<Arguments...> format, Arguments&&... arguments) {
    fmt::format_to(std::back_inserter(text), format, std::forward<Arguments>(arguments)...);
}

void put_operation(std::string& text, const report::FlightOperation& operation) {
    if (operation.ended)
        put(text, "        {}: {} long, ended {} ago\n", in_words(operation),
            report::time_text(operation.age - operation.ended_ago), report::time_text(operation.ended_ago));
    else
        put(text, "        {}: for {}\n", in_words(operation), report::time_text(operation.age));
}

void put_flight(std::string& text, const report::Flight& flight, std::size_t last) {
    std::vector<const report::FlightOperation*> open;
    const report::FlightOperation* ended = nullptr;
    for (const report::FlightOperation& operation : flight.operations) {
        if (!operation.ended)
            open.push_back(&operation);
        else
            ended = &operation;
    }
    put(text, "    rank {}, process {} on {}{}: ", flight.rank, flight.pid, flight.host,
        flight.lives ? "" : ", " + end_in_words(flight));
    if (flight.unrecorded != 0)
        put(text, "{} operations had no room; ", flight.unrecorded);
    if (last != 0) {
        put(text, "{} operations, the last ones:\n", flight.begun);
        const std::size_t skipped = flight.operations.size() - std::min(last, flight.operations.size());
        for (std::size_t i = skipped; i < flight.operations.size(); ++i)
            put_operation(text, flight.operations[i]);
        return;
    }
    constexpr std::size_t kShown = 8;
    if (open.empty() && ended == nullptr) {
        put(text, "no call with device memory yet\n");
    } else if (open.empty()) {
        put(text, "{} no call with device memory; the last:\n", flight.lives ? "in" : "was in");
        put_operation(text, *ended);
    } else {
        put(text, "{}\n", flight.lives ? "in" : "was in");
        for (std::size_t i = 0; i < open.size() && i < kShown; ++i)
            put_operation(text, *open[i]);
        if (open.size() > kShown)
            put(text, "        and {} more\n", open.size() - kShown);
    }
}

}  // namespace

std::string in_words(const Job& job, std::size_t last) {
    const report::Flight& first = *job.flights.front();
    std::string text = fmt::format("job {}: {}, {} of {} rank{}\n", job.name, first.program, job.flights.size(),
                                   first.ranks, first.ranks == 1 ? "" : "s");
    for (const report::Flight* flight : job.flights)
        put_flight(text, *flight, last);
    for (const std::string& finding : report::findings(job.flights))
        put(text, "{}\n", finding);
    return text;
}

namespace {

Json as_json(int number) {
    namespace flight = report::flight;
    return number == flight::kNone ? Json(nullptr) : number == flight::kAny ? Json("any") : Json(number);
}

Json as_json(const report::FlightOperation& operation) {
    Json json = {{"number", operation.number}, {"call", name(operation.call)}};
    json["communicator"] = or_null(operation.communicator);
    json["communicator_ranks"] = operation.communicator_ranks;
    json["communicator_id"] = operation.communicator_id;
    json["collective"] = operation.collective != 0 ? Json(operation.collective) : Json(nullptr);
    json["peer"] = as_json(operation.peer);
    json["tag"] = as_json(operation.tag);
    json["bytes"] = operation.routed ? Json(operation.bytes) : Json(nullptr);
    json["carrier"] = operation.routed ? Json(name(operation.carrier)) : Json(nullptr);
    json["reason"] =
        operation.routed && operation.reason != Reason::kNone ? Json(name(operation.reason)) : Json(nullptr);
    json["ended"] = operation.ended;
    json["began_seconds_ago"] = operation.age;
    json["ended_seconds_ago"] = operation.ended ? Json(operation.ended_ago) : Json(nullptr);
    return json;
}

}  // namespace

Json as_json(const std::vector<Job>& jobs) {
    Json all = Json::array();
    for (const Job& job : jobs) {
        Json processes = Json::array();
        for (const report::Flight* flight : job.flights) {
            Json operations = Json::array();
            for (const report::FlightOperation& operation : flight->operations)
                operations.push_back(as_json(operation));
            processes.push_back({{"rank", flight->rank},
                                 {"pid", flight->pid},
                                 {"host", flight->host},
                                 {"lives", flight->lives},
                                 {"ended_by", or_null(flight->ended_by)},
                                 {"begun", flight->begun},
                                 {"unrecorded", flight->unrecorded},
                                 {"operations", std::move(operations)}});
        }
        all.push_back({{"job", job.name},
                       {"program", job.flights.front()->program},
                       {"ranks", job.flights.front()->ranks},
                       {"processes", std::move(processes)},
                       {"findings", report::findings(job.flights)}});
    }
    return {{"jobs", std::move(all)}};
}

bool counts_calls(const Job& job) {
    return std::any_of(job.flights.begin(), job.flights.end(),
                       [](const report::Flight* flight) { return flight->counts; });
}

namespace {

// Sums, and whose time is the least and the most of all: a rank without such a call has spent none in it.
class Sums {
  public:
    explicit Sums(const Job& job) : job_(job) {
        for (const report::Flight* flight : job.flights)
            for (const report::Cell& cell : flight->counted)
                add(cell, flight->rank);
    }
    std::vector<report::Line> lines() const {
        std::vector<report::Line> lines;
        for (const auto& [key, entry] : entries_) {
            lines.push_back(report::line_of({key, entry.sum}));
            std::tie(lines.back().least, lines.back().most) = extremes(entry);
        }
        return lines;
    }

  private:
    struct Entry {
        report::Sum sum;
        std::map<int, double> seconds;  // by rank
    };

    void add(const report::Cell& cell, int rank) {
        Entry& entry = entries_[cell.key];
        entry.sum.count += cell.sum.count;
        entry.sum.bytes += cell.sum.bytes;
        entry.sum.nanoseconds += cell.sum.nanoseconds;
        for (std::size_t i = 0; i < report::kSizeClasses; ++i)
            entry.sum.counts[i] += cell.sum.counts[i];
        entry.seconds[rank] = static_cast<double>(cell.sum.nanoseconds) * 1e-9;
    }

    std::pair<report::OfRank, report::OfRank> extremes(const Entry& entry) const {
        report::OfRank least, most;
        for (const report::Flight* flight : job_.flights) {
            const auto found = entry.seconds.find(flight->rank);
            const double seconds = found != entry.seconds.end() ? found->second : 0;
            if (least.rank < 0 || seconds < least.seconds)
                least = {seconds, flight->rank};
            if (most.rank < 0 || seconds > most.seconds)
                most = {seconds, flight->rank};
        }
        return {least, most};
    }

    const Job& job_;
    std::map<report::Key, Entry> entries_;
};

report::Run run_of(const Job& job) {
    report::Run run;
    const report::Flight& first = *job.flights.front();
    run.program = first.lives ? report::command_line_of(first.pid) : first.program;
    for (const report::Flight* flight : job.flights)
        run.seconds = std::max(run.seconds, flight->age);
    if (first.lives)  // of a copy it is not known how old it is
        run.began = report::date_before(first.age);
    return run;
}

}  // namespace

report::Summary report_of(const Job& job) {
    report::Summary summary;
    summary.switchyard = PACKAGE_VERSION;
    summary.run = run_of(job);
    for (const report::Flight* flight : job.flights) {
        summary.ranks.push_back({flight->host, flight->device});
        for (auto [text, known] : {std::pair(&flight->mpi, &summary.mpi), std::pair(&flight->nccl, &summary.nccl),
                                   std::pair(&flight->driver, &summary.driver)})
            if (known->empty())
                *known = *text;
    }
    summary.lines = Sums(job).lines();
    return summary;
}

}  // namespace swy::cli
