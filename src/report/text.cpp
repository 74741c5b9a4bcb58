#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <set>
#include <string_view>
#include <vector>

#include "report/advice.hpp"
#include "report/figures.hpp"
#include "report/summary.hpp"
#include "report/units.hpp"

namespace swy::report {

namespace {

constexpr std::size_t kMostLines = 20;  // of calls: with the heading and the advice, one screen
constexpr std::size_t kMostAdvice = 4;
constexpr std::size_t kMostGpus = 4;  // that ranks share
constexpr std::array kOfDevices = {Carrier::kNccl, Carrier::kPeer, Carrier::kStaged};

// Who has run what, where and when; a line each.
std::vector<std::string> heading(const Summary& summary, std::size_t hosts) {
    std::vector<std::string> lines;
    if (!summary.cut_short.empty())
        lines.push_back("Up to then: " + summary.cut_short);
    if (const std::string run = run_in_words(summary.run); !run.empty())
        lines.push_back(run);
    std::string versions = summary.mpi.empty() ? "unknown MPI" : summary.mpi;
    if (!summary.nccl.empty())
        versions += ", NCCL " + summary.nccl;
    if (!summary.driver.empty())
        versions += ", driver " + summary.driver;
    if (summary.communicators.made != 0)
        versions += fmt::format(", {} in all ranks",
                                plural(static_cast<std::uint64_t>(summary.communicators.made), "NCCL communicator"));
    lines.push_back(versions);
    if (hosts > 1)
        lines.push_back("Hosts: " + hosts_in_words(summary));
    if (!summary.run.settings.empty())
        lines.push_back(fmt::format("Settings that are not the defaults: {}", fmt::join(summary.run.settings, ", ")));
    const std::vector<Gpu> gpus = gpus_of(summary);
    std::size_t shared = 0;
    for (const Gpu& gpu : gpus)
        if (gpu.ranks.size() > 1 && ++shared <= kMostGpus)
            lines.push_back(fmt::format("GPU shared by {}: {}{}", ranks_in_words(gpu.ranks), gpu.name,
                                        hosts > 1 ? " of " + gpu.host : ""));
    if (shared > kMostGpus)
        lines.push_back(fmt::format("and {} that ranks share: SWITCHYARD_REPORT=json:FILE has all",
                                    plural(shared - kMostGpus, "more GPU")));
    if (!summary.kernels.empty())
        lines.push_back("No kernels, so copies and the host do their work: " + summary.kernels);
    if (!summary.tuning.empty())
        lines.push_back("Tuning: " + summary.tuning);
    if (!summary.tools_above.empty())
        lines.push_back("Tools above Switchyard, which see the program's calls: " + summary.tools_above);
    if (!summary.tools_below.empty()) {
        lines.push_back("Tools below Switchyard, which see none of these calls: " + summary.tools_below);
        lines.push_back(
            "  Preload them too (LD_PRELOAD=TOOL switchyard run ...), or link in the order tool, Switchyard, "
            "libmpi.");
    }
    return lines;
}

std::string heading(const Summary& summary, const Form& form) {
    std::set<std::string> hosts;
    for (const Rank& rank : summary.ranks)
        hosts.insert(rank.host);
    const std::size_t gpus = gpus_of(summary).size();
    const std::string title = fmt::format("Switchyard {}: {} on {}, {}", summary.switchyard,
                                          plural(summary.ranks.size(), "rank"), plural(hosts.size(), "host"),
                                          gpus == 0 ? "no GPU used by NCCL" : plural(gpus, "GPU") + " used by NCCL");
    std::string text = coloured(title, Colour::kBold, form) + "\n";
    for (const std::string& line : heading(summary, hosts.size()))
        text += "  " + wrapped(line, 2, 4, form) + "\n";
    return text;
}

// Shows, as shares, which transports the data of calls on device memory took: the figure to look at first.
std::string shares(const Summary& summary, const Form& form) {
    std::array<std::uint64_t, kCarriers> bytes{};
    for (const Line& line : summary.lines)
        bytes[static_cast<std::size_t>(line.carrier)] += line.bytes;
    std::uint64_t device = 0;
    for (Carrier carrier : kOfDevices)
        device += bytes[static_cast<std::size_t>(carrier)];
    if (device == 0)
        return "  No data in device memory.\n";
    std::string text = fmt::format("Data in device memory: {}", size_text(device));
    std::string_view separator = " = ";
    for (Carrier carrier : kOfDevices) {
        const std::uint64_t part = bytes[static_cast<std::size_t>(carrier)];
        if (part == 0)
            continue;
        text += fmt::format("{}{} {} ({:.1f} %)", separator, name(carrier), size_text(part),
                            100 * static_cast<double>(part) / static_cast<double>(device));
        separator = " + ";
    }
    return "  " + wrapped(text, 2, 4, form) + "\n";
}

// Shows, as shares of the run, in which calls a rank was, on average. Operations that do not block are not among them:
// what the program does meanwhile is its own.
std::string shares_of_run(const Summary& summary, const Form& form) {
    if (summary.run.seconds <= 0)
        return {};
    std::vector<std::string> parts;
    for (const auto& [what, seconds] : time_of_calls(summary))
        if (seconds > 0)
            parts.push_back(fmt::format("{} {}", what, share_text(share_of_run(summary, seconds))));
    if (parts.empty())
        return {};
    return "  " + wrapped(fmt::format("Time of a rank: {}", fmt::join(parts, ", ")), 2, 4, form) + "\n";
}

Colour colour_of(Carrier carrier) {
    switch (carrier) {
        case Carrier::kNccl:
            return Colour::kGreen;
        case Carrier::kStaged:
            return Colour::kYellow;
        case Carrier::kPeer:
            return Colour::kMagenta;
        case Carrier::kHost:
            break;
    }
    return Colour::kNone;
}

std::vector<Table::Cell> row_of(const Summary& summary, const Line& line) {
    const bool has_data = !waits_or_tests(line.call);
    const bool has_reason = line.reason != Reason::kNone;
    return {{line.call},
            {std::string(has_data ? name(line.carrier) : ""), colour_of(line.carrier)},
            {std::to_string(line.count)},
            {has_data ? size_text(line.bytes) : ""},
            {time_text(line.seconds / static_cast<double>(line.count))},
            {time_text(line.seconds / static_cast<double>(summary.ranks.size()))},
            {share_of_run_text(summary, line)},
            {of_rank_text(line.least, summary)},
            {of_rank_text(line.most, summary)},
            {std::string(has_reason ? name(line.reason) : "")}};
}

std::string calls_table(const Summary& summary, const Form& form) {
    std::vector<Line> lines = summary.lines;
    std::stable_sort(lines.begin(), lines.end(), [](const Line& a, const Line& b) { return a.seconds > b.seconds; });
    Table table({{"call", true},
                 {"transport", true},
                 {"calls"},
                 {"data"},
                 {"time/call", false, 1},
                 {"time/rank"},
                 {"of run", false, 2},
                 {"least (rank)", false, 3},
                 {"most (rank)", false, 3},
                 {"why", true}});
    for (std::size_t i = 0; i < std::min(lines.size(), kMostLines); ++i)
        table.add(row_of(summary, lines[i]));
    std::string text = "\n" + table.as_text(form);
    if (lines.size() > kMostLines)
        text += fmt::format("  and {} with less time: SWITCHYARD_REPORT=json:FILE has all\n",
                            plural(lines.size() - kMostLines, "line"));
    const bool many = std::any_of(lines.begin(), lines.end(), [](const Line& line) { return line.most.rank >= 0; });
    return text + "  " +
           wrapped(
               fmt::format("Calls and data are summed over ranks.{}",
                           many && summary.ranks.size() > 1
                               ? " Least and most are the times of the ranks that spent least and most in these calls."
                               : ""),
               2, 2, form) +
           "\n";
}

// The numbers of calls by the size of their data on a rank.
std::string sizes_table(const Summary& summary, const Form& form) {
    std::vector<Table::Column> columns = {{"calls by size", true}};
    for (std::size_t i = 0; i < kSizeClasses; ++i)
        columns.push_back({size_class_text(i)});
    Table table(columns);
    std::uint64_t all = 0;
    for (const Carrier carrier : {Carrier::kNccl, Carrier::kPeer, Carrier::kStaged, Carrier::kHost}) {
        const auto counts = counts_by_size(summary, carrier);
        const std::uint64_t sum = std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
        if (sum == 0)
            continue;
        all += sum;
        std::vector<Table::Cell> row = {{std::string(name(carrier)), colour_of(carrier)}};
        for (const std::uint64_t count : counts)
            row.push_back({count == 0 ? "-" : std::to_string(count)});
        table.add(std::move(row));
    }
    return all == 0 ? "" : "\n" + table.as_text(form);
}

// Explains the reasons in the column "why" for which there is no advice; the advice explains the others.
std::string legend(const Summary& summary, const Form& form) {
    std::set<Reason> seen;
    for (const Line& line : summary.lines) {
        if (line.reason != Reason::kNone && (line.carrier == Carrier::kNccl || remedy(line.reason).empty()))
            seen.insert(line.reason);
    }
    std::string text;
    for (Reason reason : seen)
        text += "  " + wrapped(fmt::format("{}: {}.", name(reason), explain(reason)), 2, 4, form) + "\n";
    return text;
}

std::string advice(const Summary& summary, const Form& form) {
    const std::vector<Advice> found = advice_for(summary);
    std::string text;
    for (std::size_t i = 0; i < std::min(found.size(), kMostAdvice); ++i) {
        const Advice& a = found[i];
        text += fmt::format("  {}. {}\n     {}\n", i + 1,
                            wrapped(fmt::format("{} in {} did not go over NCCL ({}): {}.", size_text(a.bytes),
                                                plural(a.count, "call"), name(a.reason), explain(a.reason)),
                                    5, 5, form),
                            coloured(wrapped(remedy(a.reason), 5, 5, form), Colour::kBold, form));
    }
    return text.empty() ? text : "\n  " + coloured("Worth acting on:", Colour::kBold, form) + "\n" + text;
}

}  // namespace

std::string as_text(const Summary& summary, const Form& form) {
    std::string text = heading(summary, form);
    if (summary.lines.empty())
        return text + "  No call with data was made through Switchyard.\n";
    return text + shares(summary, form) + shares_of_run(summary, form) + advice(summary, form) +
           calls_table(summary, form) + sizes_table(summary, form) + legend(summary, form);
}

}  // namespace swy::report
