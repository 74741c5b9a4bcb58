#include "report/figures.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "call_ids.hpp"
#include "report/units.hpp"

namespace swy::report {
namespace {

bool call_blocks(std::string_view call) {
    return std::any_of(kCallFacts.begin(), kCallFacts.end(),
                       [&](const CallFacts& facts) { return facts.name == call && facts.blocking; });
}

}  // namespace

bool waits_or_tests(std::string_view call) {
    return call == "MPI_Barrier" || call.starts_with("MPI_Wait") || call.starts_with("MPI_Test");
}

std::string plural(std::uint64_t number, std::string_view one) {
    return fmt::format("{} {}{}", number, one, number == 1 ? "" : "s");
}

std::string run_in_words(const Run& run) {
    constexpr std::size_t kLongest = 300;
    std::string text = run.program.size() > kLongest ? run.program.substr(0, kLongest) + " ..." : run.program;
    constexpr std::size_t kDate = 10, kTime = 19;  // characters of ISO 8601 up to the T, and up to the zone
    std::string began = run.began;
    if (began.size() > kTime)
        began.replace(kDate, 1, " ").insert(kTime, " ");
    if (!began.empty())
        text += (text.empty() ? "Began " : "; began ") + began;
    if (run.seconds > 0)
        text += (text.empty() ? "Ran " : ", ran ") + time_text(run.seconds);
    return text;
}

std::string hosts_in_words(const Summary& summary) {
    constexpr std::size_t kShown = 8;
    std::vector<std::string> hosts;
    for (const Rank& rank : summary.ranks)
        if (std::find(hosts.begin(), hosts.end(), rank.host) == hosts.end())
            hosts.push_back(rank.host);
    std::string text;
    for (std::size_t i = 0; i < std::min(hosts.size(), kShown); ++i)
        text += (i == 0 ? "" : ", ") + hosts[i];
    return hosts.size() > kShown ? text + fmt::format(" and {} more", hosts.size() - kShown) : text;
}

std::vector<Gpu> gpus_of(const Summary& summary) {
    std::vector<Gpu> gpus;
    for (std::size_t rank = 0; rank < summary.ranks.size(); ++rank) {
        const Rank& its = summary.ranks[rank];
        if (its.device.empty())
            continue;
        auto at = std::find_if(gpus.begin(), gpus.end(),
                               [&](const Gpu& gpu) { return gpu.host == its.host && gpu.name == its.device; });
        if (at == gpus.end())
            at = gpus.insert(gpus.end(), {its.host, its.device, {}});
        at->ranks.push_back(static_cast<int>(rank));
    }
    return gpus;
}

std::array<std::pair<std::string_view, double>, 4> time_of_calls(const Summary& summary) {
    std::array<std::pair<std::string_view, double>, 4> times = {
        {{"calls that block", 0}, {"MPI_Wait", 0}, {"MPI_Test", 0}, {"MPI_Barrier", 0}}};
    for (const Line& line : summary.lines) {
        if (!waits_or_tests(line.call))
            times[0].second += call_blocks(line.call) ? line.seconds : 0;
        for (std::size_t i = 1; i < times.size(); ++i)
            times[i].second += line.call.starts_with(times[i].first) ? line.seconds : 0;
    }
    return times;
}

double share_of_run(const Summary& summary, double seconds) {
    return seconds / static_cast<double>(summary.ranks.size()) / summary.run.seconds;
}

std::string share_text(double share) {
    return fmt::format("{:.1f} %", 100 * share);
}

std::string share_of_run_text(const Summary& summary, const Line& line) {
    const bool is_callers = call_blocks(line.call) || waits_or_tests(line.call);
    return is_callers && summary.run.seconds > 0 ? share_text(share_of_run(summary, line.seconds)) : "";
}

std::string of_rank_text(const OfRank& time, const Summary& summary) {
    return time.rank < 0 || summary.ranks.size() < 2 ? "" : fmt::format("{} ({})", time_text(time.seconds), time.rank);
}

std::string size_class_text(std::size_t size_class) {
    if (size_class >= kSizeLimits.size())
        return "larger";
    const std::string limit = size_text(kSizeLimits[size_class]);
    const std::size_t dot = limit.find(".0");
    return "< " + (dot == std::string::npos ? limit : std::string(limit).erase(dot, 2));
}

std::array<std::uint64_t, kSizeClasses> counts_by_size(const Summary& summary, Carrier carrier) {
    std::array<std::uint64_t, kSizeClasses> counts{};
    for (const Line& line : summary.lines)
        for (std::size_t i = 0; i < kSizeClasses && line.carrier == carrier && !waits_or_tests(line.call); ++i)
            counts[i] += line.counts[i];
    return counts;
}

}  // namespace swy::report
