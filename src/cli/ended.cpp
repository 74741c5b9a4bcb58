#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "cli/commands.hpp"
#include "cli/flights.hpp"
#include "cli/jobs.hpp"
#include "report/flight_file.hpp"

namespace swy::cli {
namespace {

constexpr const char* kRequest = "SIGUSR2";  // after which the processes go on

void tell_user(const std::string& text) {
    std::fputs(text.c_str(), stderr);
}

// Where the job's first rank is elsewhere, that host writes to the name itself.
std::string file_for(const Job& job, const std::string& name) {
    const Flight& first = *job.flights.front();
    return first.rank == 0 ? name : name + "." + first.host;
}

void write_report(const Job& job, const std::string& cut_short, const std::string& to) {
    report::Summary summary = report_of(job);
    summary.cut_short = cut_short;
    if (to == "-")
        return tell_user(as_text(summary));
    const std::string path = file_for(job, to);
    errno = 0;
    std::ofstream file(path, std::ios::binary);
    file << as_json(summary);
    file.close();
    tell_user(file
                  ? fmt::format("switchyard: the report, as far as it came, is in {}\n", path)
                  : fmt::format("switchyard: the report could not be written to {}: {}\n", path, std::strerror(errno)));
}

}  // namespace

int ended(std::span<const std::string> arguments) {
    if (arguments.size() != 3) {
        tell_user("usage: switchyard ended PID WHY REPORT; the library starts it\n");
        return kUsage;
    }
    const std::string &pid = arguments[0], &why = arguments[1], &report = arguments[2];
    std::vector<std::string> problems;
    const std::vector<Flight> flights = read_flights(std::string(report::flight::kFolder), problems);
    for (const Job& job : jobs_of(flights)) {
        if (!job.is_one_of({pid}))
            continue;
        const bool asked = why == kRequest;
        if (!may_tell(*job.flights.front(), !asked))
            return kDone;
        int rank = 0;
        for (const Flight* flight : job.flights)
            if (std::to_string(flight->pid) == pid)
                rank = flight->rank;
        const std::string cause = why == "exit" ? fmt::format("rank {} exits before MPI_Finalize", rank)
                                                : fmt::format("{} in rank {}", why, rank);
        if (asked || job.waits())
            tell_user(fmt::format("switchyard: {}. What the ranks here {} in:\n", cause, asked ? "are" : "were") +
                      in_words(job, 0));
        if (!report.empty() && counts_calls(job))
            write_report(job, fmt::format("{}; {} of {} ranks", cause, job.flights.size(), job.flights.front()->ranks),
                         report);
    }
    return kDone;
}

}  // namespace swy::cli
