#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "cli/commands.hpp"
#include "cli/jobs.hpp"
#include "report/flight_file.hpp"
#include "report/flights.hpp"
#include "settings/files.hpp"
#include "settings/settings.hpp"

namespace swy::cli {
namespace {

constexpr std::string_view kRequest = "SIGUSR2", kTimeout = "SWITCHYARD_TIMEOUT";  // after which the job goes on
constexpr const char* kLauncher = "SIGTERM";
constexpr double kPause = 1;  // seconds in which it is answered once

void tell_user(const std::string& text) {
    std::fputs(text.c_str(), stderr);
}

// Where the job's first rank is elsewhere, that host writes to the name itself.
std::string file_for(const Job& job, const std::string& name) {
    const report::Flight& first = *job.flights.front();
    return first.rank == 0 ? name : name + "." + first.host;
}

std::string asked_of(const Job& job, const std::string& pid, const std::string& why) {
    const std::string what = why == kTimeout ? why + " has passed" : why;
    for (const report::Flight* flight : job.flights)
        if (std::to_string(flight->pid) == pid)
            return fmt::format("{} in rank {}", what, flight->rank);
    return what;
}

// What ended the first process of those here. The launcher then sends SIGTERM to the others, and each of these may be
// the first to come here: what is noted with SIGTERM is the cause only where nothing else is.
std::string cause_of_end(const Job& job) {
    const report::Flight* first = nullptr;
    for (const report::Flight* flight : job.flights)
        if (flight->ends != 0 && (first == nullptr || flight->ends < first->ends))
            first = flight;
    if (first == nullptr || first->ended_by == kLauncher)
        for (const report::Flight* flight : job.flights)
            if (!flight->lives && flight->ends == 0)
                return fmt::format("rank {} has ended without MPI_Finalize (SIGKILL or _exit)", flight->rank);
    if (first == nullptr)
        return "the job ends before MPI_Finalize";
    if (first->ended_by == "exit")
        return fmt::format("rank {} exits before MPI_Finalize", first->rank);
    return fmt::format("{} in rank {}", first->ended_by, first->rank);
}

void write_report(const Job& job, const std::string& cut_short, const std::string& to) {
    report::Summary summary = report_of(job);
    summary.cut_short = cut_short;
    if (to == "-") {
        settings::Values values;
        settings::read(values);
        return tell_user(as_text(summary, report::form_of_report(values)));
    }
    const std::string path = file_for(job, to);
    const std::string text = as_json(summary);
    std::FILE* const file = settings::open_to_write(path);
    const bool written = file != nullptr && std::fwrite(text.data(), 1, text.size(), file) == text.size();
    const bool closed = file != nullptr && std::fclose(file) == 0;
    tell_user(written && closed
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
    const std::vector<report::Flight> flights = report::read_flights(std::string(report::flight::kFolder), problems);
    for (const Job& job : jobs_of(flights)) {
        if (!job.is_one_of({pid}))
            continue;
        const bool asked = why == kRequest || why == kTimeout;
        const report::Flight& first = *job.flights.front();
        if (asked ? !report::may_tell(first, kPause) : !report::may_tell_end(first))
            return kDone;
        const std::string cause = asked ? asked_of(job, pid, why) : cause_of_end(job);
        if (asked || job.waits())
            tell_user(fmt::format("switchyard: {}. What the ranks here {} in:\n", cause, asked ? "are" : "were") +
                      in_words(job, 0));
        if (why != kTimeout && !report.empty() && counts_calls(job))
            write_report(job, fmt::format("{}; {} of {} ranks", cause, job.flights.size(), job.flights.front()->ranks),
                         report);
    }
    return kDone;
}

}  // namespace swy::cli
