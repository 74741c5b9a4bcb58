#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <iterator>
#include <set>
#include <string_view>

#include "report/advice.hpp"
#include "report/summary.hpp"
#include "report/units.hpp"

namespace swy::report {

namespace {

constexpr std::size_t kMostLines = 20;  // of calls: with the heading and the advice, one screen
constexpr std::size_t kMostAdvice = 4;
constexpr std::array kOfDevices = {Carrier::kNccl, Carrier::kPeer, Carrier::kStaged};

std::string plural(std::uint64_t number, std::string_view one) {
    return fmt::format("{} {}{}", number, one, number == 1 ? "" : "s");
}

std::string heading(const Summary& summary) {
    std::set<std::string> hosts;
    std::set<std::string> devices;  // a device is identified by host and name: its name has its PCI address
    for (const Rank& rank : summary.ranks) {
        hosts.insert(rank.host);
        if (!rank.device.empty())
            devices.insert(rank.host + " " + rank.device);
    }
    std::string text =
        fmt::format("Switchyard {}: {} on {}, {}\n", summary.switchyard, plural(summary.ranks.size(), "rank"),
                    plural(hosts.size(), "host"),
                    devices.empty() ? "no GPU used by NCCL" : plural(devices.size(), "GPU") + " used by NCCL");
    if (!summary.cut_short.empty())
        text += "  Up to then: " + summary.cut_short + "\n";
    text += "  " + (summary.mpi.empty() ? std::string("unknown MPI") : summary.mpi);
    if (!summary.nccl.empty())
        text += ", NCCL " + summary.nccl;
    if (!summary.driver.empty())
        text += ", driver " + summary.driver;
    if (summary.communicators.made != 0)
        text += fmt::format(", {} in all ranks",
                            plural(static_cast<std::uint64_t>(summary.communicators.made), "NCCL communicator"));
    if (!summary.kernels.empty())
        text += "\n  No kernels, so copies and the host do their work: " + summary.kernels;
    if (!summary.tuning.empty())
        text += "\n  Tuning: " + summary.tuning;
    if (!summary.tools_above.empty())
        text += "\n  Tools above Switchyard, which see the program's calls: " + summary.tools_above;
    if (!summary.tools_below.empty())
        text += "\n  Tools below Switchyard, which see none of these calls: " + summary.tools_below +
                "\n    Preload them too (LD_PRELOAD=TOOL switchyard run ...), or link in the order tool, Switchyard, "
                "libmpi.";
    return text + "\n";
}

// Shows, as shares, which transports the data of calls on device memory took: the figure to look at first.
std::string shares(const Summary& summary) {
    std::array<std::uint64_t, kCarriers> bytes{};
    for (const Line& line : summary.lines)
        bytes[static_cast<std::size_t>(line.carrier)] += line.bytes;
    std::uint64_t device = 0;
    for (Carrier carrier : kOfDevices)
        device += bytes[static_cast<std::size_t>(carrier)];
    if (device == 0)
        return "  No data in device memory.\n";
    std::string text = fmt::format("  Data in device memory: {}", size_text(device));
    std::string_view separator = " = ";
    for (Carrier carrier : kOfDevices) {
        const std::uint64_t part = bytes[static_cast<std::size_t>(carrier)];
        if (part == 0)
            continue;
        text += fmt::format("{}{} {} ({:.1f} %)", separator, name(carrier), size_text(part),
                            100 * static_cast<double>(part) / static_cast<double>(device));
        separator = " + ";
    }
    return text + "\n";
}

std::string calls_table(std::vector<Line> lines, std::size_t ranks) {
    std::stable_sort(lines.begin(), lines.end(), [](const Line& a, const Line& b) { return a.seconds > b.seconds; });
    std::size_t widest = 4;
    for (const Line& line : lines)
        widest = std::max(widest, line.call.size());
    std::string text = fmt::format("\n  {:<{}}  {:<9} {:>9} {:>11} {:>10} {:>10}  {}\n", "call", widest, "transport",
                                   "calls", "data", "time/call", "time/rank", "why");
    for (std::size_t i = 0; i < std::min(lines.size(), kMostLines); ++i) {
        const Line& line = lines[i];
        text +=
            fmt::format("  {:<{}}  {:<9} {:>9} {:>11} {:>10} {:>10}  {}", line.call, widest, name(line.carrier),
                        line.count, size_text(line.bytes), time_text(line.seconds / static_cast<double>(line.count)),
                        time_text(line.seconds / static_cast<double>(ranks)),
                        line.reason == Reason::kNone ? "" : name(line.reason));
        text.erase(text.find_last_not_of(' ') + 1);
        text += '\n';
    }
    if (lines.size() > kMostLines)
        text += fmt::format("  and {} with less time: SWITCHYARD_REPORT=json:FILE has all\n",
                            plural(lines.size() - kMostLines, "line"));
    return text + "  Calls and data are summed over ranks.\n";
}

// Explains the reasons in the column "why" for which there is no advice; the advice explains the others.
std::string legend(const Summary& summary) {
    std::set<Reason> seen;
    for (const Line& line : summary.lines) {
        if (line.reason != Reason::kNone && (line.carrier == Carrier::kNccl || remedy(line.reason).empty()))
            seen.insert(line.reason);
    }
    std::string text;
    for (Reason reason : seen)
        text += fmt::format("  {}: {}.\n", name(reason), explain(reason));
    return text;
}

std::string advice(const Summary& summary) {
    const std::vector<Advice> found = advice_for(summary);
    std::string text;
    for (std::size_t i = 0; i < std::min(found.size(), kMostAdvice); ++i) {
        const Advice& a = found[i];
        text += fmt::format("  {}. {} in {} did not go over NCCL ({}): {}.\n     {}\n", i + 1, size_text(a.bytes),
                            plural(a.count, "call"), name(a.reason), explain(a.reason), remedy(a.reason));
    }
    return text.empty() ? text : "\n  Worth acting on:\n" + text;
}

}  // namespace

std::string as_text(const Summary& summary) {
    std::string text = heading(summary);
    if (summary.lines.empty())
        return text + "  No call with data was made through Switchyard.\n";
    return text + shares(summary) + calls_table(summary.lines, summary.ranks.size()) + legend(summary) +
           advice(summary);
}

}  // namespace swy::report
