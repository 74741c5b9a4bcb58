#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "cli/arguments.hpp"
#include "cli/commands.hpp"
#include "cli/flights.hpp"
#include "cli/json.hpp"
#include "report/flight_file.hpp"
#include "report/units.hpp"

namespace swy::cli {
namespace {

constexpr const char* kStatusNotes =
    "Every process of a job with GPUs keeps its last 256 operations in /dev/shm, until MPI_Finalize removes them. "
    "Those\n"
    "of a process that ended in another way are kept for a day. SWITCHYARD_STATUS=no switches it off.\n"
    "\nExamples:\n"
    "  switchyard status\n"
    "  switchyard status --last 20 4711\n"
    "  mpirun --host a,b -N 1 switchyard status --save /shared/hang && switchyard status --from /shared/hang\n";

// On standard output, of which main.cpp sees whether it could be written.
template <typename... Arguments>
void put(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
    std::fputs(fmt::format(format, std::forward<Arguments>(arguments)...).c_str(), stdout);
}

struct Job {
    std::string name;
    std::vector<const Flight*> flights;  // by rank

    bool lives() const {
        return std::any_of(flights.begin(), flights.end(), [](const Flight* flight) { return flight->lives; });
    }
    // Seconds since something was recorded.
    double age() const {
        double least = 1e18;
        for (const Flight* flight : flights)
            for (const FlightOperation& operation : flight->operations)
                least = std::min(least, operation.ended ? operation.ended_ago : operation.age);
        return least;
    }
    bool is_one_of(const std::vector<std::string>& wanted) const {
        return std::any_of(wanted.begin(), wanted.end(), [&](const std::string& one) {
            return one == name || std::any_of(flights.begin(), flights.end(),
                                              [&](const Flight* flight) { return one == std::to_string(flight->pid); });
        });
    }
};

std::vector<Job> jobs_of(const std::vector<Flight>& flights) {
    std::map<std::string, Job> by_name;
    for (const Flight& flight : flights) {
        Job& job = by_name[flight.job];
        job.name = flight.job;
        job.flights.push_back(&flight);
    }
    std::vector<Job> jobs;
    for (auto& [name, job] : by_name) {
        std::sort(job.flights.begin(), job.flights.end(),
                  [](const Flight* a, const Flight* b) { return a->rank < b->rank; });
        jobs.push_back(std::move(job));
    }
    return jobs;
}

// Those that are asked for; without that the ones that run, or else the one that ended last.
std::vector<Job> chosen(std::vector<Job> jobs, const std::vector<std::string>& wanted, bool all) {
    if (all)
        return jobs;
    if (!wanted.empty()) {
        std::erase_if(jobs, [&](const Job& job) { return !job.is_one_of(wanted); });
        return jobs;
    }
    if (std::any_of(jobs.begin(), jobs.end(), [](const Job& job) { return job.lives(); })) {
        std::erase_if(jobs, [](const Job& job) { return !job.lives(); });
    } else if (!jobs.empty()) {
        std::iter_swap(jobs.begin(), std::min_element(jobs.begin(), jobs.end(),
                                                      [](const Job& a, const Job& b) { return a.age() < b.age(); }));
        jobs.resize(1);
    }
    return jobs;
}

void print_operation(const FlightOperation& operation) {
    if (operation.ended)
        put("        {}: {} long, ended {} ago\n", in_words(operation),
            report::time_text(operation.age - operation.ended_ago), report::time_text(operation.ended_ago));
    else
        put("        {}{}: for {}\n", in_words(operation), operation.routed ? "" : ", no transport chosen yet",
            report::time_text(operation.age));
}

void print_flight(const Flight& flight, std::size_t last) {
    std::vector<const FlightOperation*> open;
    const FlightOperation* ended = nullptr;
    for (const FlightOperation& operation : flight.operations) {
        if (!operation.ended)
            open.push_back(&operation);
        else
            ended = &operation;
    }
    put("    rank {}, process {} on {}{}: ", flight.rank, flight.pid, flight.host,
        flight.lives ? "" : ", ended without MPI_Finalize");
    if (flight.unrecorded != 0)
        put("{} operations had no room; ", flight.unrecorded);
    if (last != 0) {
        put("{} operations, the last ones:\n", flight.begun);
        const std::size_t skipped = flight.operations.size() - std::min(last, flight.operations.size());
        for (std::size_t i = skipped; i < flight.operations.size(); ++i)
            print_operation(flight.operations[i]);
        return;
    }
    constexpr std::size_t kShown = 8;
    if (open.empty() && ended == nullptr) {
        put("no call with device memory yet\n");
    } else if (open.empty()) {
        put("{} no call with device memory; the last:\n", flight.lives ? "in" : "was in");
        print_operation(*ended);
    } else {
        put("{}\n", flight.lives ? "in" : "was in");
        for (std::size_t i = 0; i < open.size() && i < kShown; ++i)
            print_operation(*open[i]);
        if (open.size() > kShown)
            put("        and {} more\n", open.size() - kShown);
    }
}

void print_job(const Job& job, std::size_t last) {
    const Flight& first = *job.flights.front();
    put("job {}: {}, {} of {} rank{}\n", job.name, first.program, job.flights.size(), first.ranks,
        first.ranks == 1 ? "" : "s");
    for (const Flight* flight : job.flights)
        print_flight(*flight, last);
    for (const std::string& finding : findings(job.flights))
        put("{}\n", finding);
}

Json as_json(int number) {
    namespace flight = report::flight;
    return number == flight::kNone ? Json(nullptr) : number == flight::kAny ? Json("any") : Json(number);
}

Json as_json(const FlightOperation& operation) {
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

Json as_json(const std::vector<Job>& jobs) {
    Json all = Json::array();
    for (const Job& job : jobs) {
        Json processes = Json::array();
        for (const Flight* flight : job.flights) {
            Json operations = Json::array();
            for (const FlightOperation& operation : flight->operations)
                operations.push_back(as_json(operation));
            processes.push_back({{"rank", flight->rank},
                                 {"pid", flight->pid},
                                 {"host", flight->host},
                                 {"lives", flight->lives},
                                 {"begun", flight->begun},
                                 {"unrecorded", flight->unrecorded},
                                 {"operations", std::move(operations)}});
        }
        all.push_back({{"job", job.name},
                       {"program", job.flights.front()->program},
                       {"ranks", job.flights.front()->ranks},
                       {"processes", std::move(processes)},
                       {"findings", findings(job.flights)}});
    }
    return {{"jobs", std::move(all)}};
}

std::string host_name() {
    std::array<char, 256> name{};
    gethostname(name.data(), name.size() - 1);
    return name.data();
}

std::string nothing_found(const std::vector<std::string>& wanted, const std::string& from) {
    if (!wanted.empty())
        return fmt::format("{} has no job or process {}: switchyard status --all shows what there is", from, wanted[0]);
    return fmt::format(
        "no process of yours keeps its operations in {} of {}: programs do so from MPI_Init to MPI_Finalize where the "
        "job "
        "has GPUs, unless SWITCHYARD_STATUS=no",
        from, host_name());
}

}  // namespace

int status(std::span<const std::string> arguments) {
    std::vector<std::string> wanted;
    std::string from(report::flight::kFolder), save, format = "text";
    std::size_t last = 0;
    bool all = false;
    CLI::App app(
        "Says what each rank of a job is in, for how long, and which ranks the others wait for. Also of processes "
        "that have ended without MPI_Finalize: what they were in.",
        "switchyard status");
    app.add_option("JOB", wanted, "jobs, or numbers of their processes (default: what runs, or else what ended last)")
        ->type_name("");
    app.add_flag("--all", all, "all jobs, also those that have ended");
    app.add_option("--last", last, "print the last N operations of each rank, those that have ended too")
        ->type_name("N")
        ->check(CLI::Range(std::size_t{1}, report::flight::kEntries).description(""));
    app.add_option("--save", save, "copy what is here to a folder, as one that several hosts share")
        ->type_name("FOLDER");
    app.add_option("--from", from, "read what --save has copied there")->type_name("FOLDER");
    app.add_option("--format", format, "text or json")
        ->type_name("WORD")
        ->check(CLI::IsMember({"text", "json"}).description(""));
    app.footer(kStatusNotes);
    if (const auto status = read_arguments(app, arguments))
        return *status;
    if (const std::string problem = file_without_name(app); !problem.empty())
        return refuse(app, problem, kUsage);
    std::vector<std::string> problems;
    const std::vector<Flight> flights = read_flights(from, problems);
    for (const std::string& problem : problems)
        refuse(app, problem, kProblem);
    if (!save.empty()) {
        const std::string problem = save_flights(flights, save);
        return problem.empty() ? kDone : refuse(app, problem, kProblem);
    }
    const std::vector<Job> jobs = chosen(jobs_of(flights), wanted, all);
    if (format == "json") {
        put("{}\n", as_json(jobs).dump(2));
        return kDone;
    }
    if (jobs.empty())
        return refuse(app, nothing_found(wanted, from), kProblem);
    for (const Job& job : jobs)
        print_job(job, last);
    return problems.empty() ? kDone : kProblem;
}

}  // namespace swy::cli
