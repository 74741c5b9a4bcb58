#include "report/html.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "config.h"
#include "report/advice.hpp"
#include "report/compare.hpp"
#include "report/figures.hpp"
#include "report/units.hpp"

namespace swy::report {

namespace {

constexpr std::string_view kStyle =
#include "report/page_css.inc"
    ;
constexpr std::string_view kScript =
#include "report/page_js.inc"
    ;

std::string escaped(std::string_view text) {
    std::string safe;
    for (const char c : text)
        switch (c) {
            case '&':
                safe += "&amp;";
                break;
            case '<':
                safe += "&lt;";
                break;
            case '>':
                safe += "&gt;";
                break;
            case '"':
                safe += "&quot;";
                break;
            default:
                safe += c;
        }
    return safe;
}

std::string key(std::string_view colour) {
    return fmt::format("<span class=\"key {}\"></span>", colour);
}

std::string paragraph(const std::string& text) {
    return text.empty() ? "" : "<p>" + escaped(text) + "</p>\n";
}

std::string about(const Summary& summary) {
    std::string text = fmt::format("Switchyard {}, {}, {}", summary.switchyard, plural(summary.ranks.size(), "rank"),
                                   summary.mpi.empty() ? "unknown MPI" : summary.mpi);
    if (!summary.nccl.empty())
        text += ", NCCL " + summary.nccl;
    if (!summary.driver.empty())
        text += ", driver " + summary.driver;
    if (!summary.cut_short.empty())
        text += "; up to then: " + summary.cut_short;
    std::string settings;
    if (!summary.run.settings.empty())
        settings = fmt::format("Settings that are not the defaults: {}", fmt::join(summary.run.settings, ", "));
    return paragraph(run_in_words(summary.run)) + paragraph(text) + paragraph("Hosts: " + hosts_in_words(summary)) +
           paragraph(settings);
}

// Which ranks used which GPU, to be seen at once where ranks share one.
std::string gpus(const Summary& summary) {
    std::string rows;
    bool shared = false;
    for (const Gpu& gpu : gpus_of(summary)) {
        rows += fmt::format("<tr><td>{}</td><td class=\"word\">{}</td><td class=\"why\">{}{}</td></tr>\n",
                            escaped(gpu.host), escaped(gpu.name), ranks_in_words(gpu.ranks),
                            gpu.ranks.size() > 1 ? ", which share it" : "");
        shared |= gpu.ranks.size() > 1;
    }
    if (rows.empty())
        return rows;
    return fmt::format(
               "<details{}><summary>GPUs</summary>\n<div class=\"wide\"><table><thead><tr><th>host</th><th "
               "class=\"word\">GPU</th><th class=\"word\">used by</th></tr></thead><tbody>\n",
               shared ? " open" : "") +
           rows + "</tbody></table></div>\n</details>\n";
}

std::string shares_of_time(const Summary& summary) {
    std::vector<std::string> parts;
    for (const auto& [what, seconds] : time_of_calls(summary))
        if (summary.run.seconds > 0 && seconds > 0)
            parts.push_back(fmt::format("{} {}", what, share_text(share_of_run(summary, seconds))));
    return parts.empty() ? "" : paragraph(fmt::format("Time of a rank: {}", fmt::join(parts, ", ")));
}

// Shows, as a bar, which transports the data of calls on device memory took.
std::string shares_list(const Summary& summary) {
    std::array<std::uint64_t, kCarriers> bytes{};
    for (const Line& line : summary.lines)
        bytes[static_cast<std::size_t>(line.carrier)] += line.bytes;
    bytes[static_cast<std::size_t>(Carrier::kHost)] = 0;
    std::uint64_t all = 0;
    for (const std::uint64_t part : bytes)
        all += part;
    if (all == 0)
        return "<p>No data in device memory.</p>\n";
    std::string words, bar;
    for (Carrier carrier : {Carrier::kNccl, Carrier::kPeer, Carrier::kStaged})
        if (const std::uint64_t part = bytes[static_cast<std::size_t>(carrier)]; part != 0) {
            const double share = 100 * static_cast<double>(part) / static_cast<double>(all);
            words += fmt::format("<span class=\"word\">{}{} {} ({:.1f} %)</span> ", key(name(carrier)), name(carrier),
                                 size_text(part), share);
            bar += fmt::format("<span class=\"{}\" style=\"width:{:.2f}%\"></span>", name(carrier), share);
        }
    return fmt::format(
        "<p class=\"legend\"><span class=\"word\">Data in device memory: {}</span> {}</p>\n<div "
        "class=\"shares\">{}</div>\n",
        size_text(all), words, bar);
}

std::string why(Reason reason) {
    return reason == Reason::kNone ? "" : fmt::format("{}: {}", name(reason), escaped(explain(reason)));
}

std::string transport(std::string_view call, Carrier carrier) {
    return waits_or_tests(call) ? "" : fmt::format("{}{}", key(name(carrier)), name(carrier));
}

// How many of the calls are of which size, as far as it is known.
std::string sizes(const Line& line) {
    std::string text;
    for (std::size_t i = 0; i < kSizeClasses && !waits_or_tests(line.call); ++i)
        if (line.counts[i] != 0)
            text += fmt::format("{}{}: {}", text.empty() ? "" : ", ", escaped(size_class_text(i)), line.counts[i]);
    return text;
}

std::string calls(const Summary& summary) {
    std::vector<Line> lines = summary.lines;
    std::stable_sort(lines.begin(), lines.end(), [](const Line& a, const Line& b) { return a.seconds > b.seconds; });
    std::string table =
        "<div class=\"wide\"><table class=\"calls\"><thead><tr><th>call</th><th "
        "class=\"word\">transport</th><th>calls</th><th>data</th><th>time/call</th><th>time/rank</th><th "
        "class=\"word\">why</th><th>of run</th><th>least (rank)</th><th>most (rank)</th><th class=\"word\">calls by "
        "size</th></tr></thead><tbody>\n";
    for (const Line& line : lines)
        table += fmt::format(
            "<tr><td>{}</td><td class=\"word\">{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td "
            "class=\"why\">{}</td><td>{}</td><td>{}</td><td>{}</td><td class=\"sizes\">{}</td></tr>\n",
            escaped(line.call), transport(line.call, line.carrier), line.count,
            waits_or_tests(line.call) ? "" : size_text(line.bytes),
            time_text(line.seconds / static_cast<double>(std::max<std::uint64_t>(line.count, 1))),
            time_text(line.seconds / static_cast<double>(summary.ranks.size())), why(line.reason),
            share_of_run_text(summary, line), of_rank_text(line.least, summary), of_rank_text(line.most, summary),
            sizes(line));
    return table + "</tbody></table></div>\n<p>Calls and data are summed over ranks.</p>\n";
}

std::string change_text(double from, double to) {
    return from == to ? "" : (to < from ? "-" : "+") + time_text(std::abs(to - from));
}

std::string heading_of(const std::vector<NamedReport>& reports, bool changes) {
    std::string groups, columns;
    for (const NamedReport& report : reports) {
        groups += fmt::format("<th class=\"run\" colspan=\"3\">{}</th>", escaped(report.name));
        columns += "<th class=\"run\">calls</th><th>data</th><th>time/rank</th>";
    }
    const std::string_view change = changes ? "<th class=\"run\">change</th>" : "";
    return fmt::format(
        "<thead><tr><th colspan=\"3\"></th>{}{}</tr>\n<tr><th>call</th><th class=\"word\">transport</th><th "
        "class=\"word\">why</th>{}{}</tr></thead>",
        groups, changes ? "<th class=\"run\"></th>" : "", columns, change);
}

// The runs side by side, call by call; what differs most in time comes first.
std::string comparison(const std::vector<NamedReport>& reports) {
    std::vector<Summary> summaries;
    for (const NamedReport& report : reports)
        summaries.push_back(report.summary);
    const bool changes = reports.size() == 2;
    std::string table = "<section>\n<h2>Compared</h2>\n<div class=\"wide\"><table class=\"calls\">" +
                        heading_of(reports, changes) + "<tbody>\n";
    for (const auto& [key, row] : rows_of(summaries)) {
        const auto& [call, carrier, reason] = key;
        table += fmt::format("<tr><td>{}</td><td class=\"word\">{}</td><td class=\"word\">{}</td>", escaped(call),
                             transport(call, carrier), reason == Reason::kNone ? "" : name(reason));
        for (std::size_t i = 0; i < summaries.size(); ++i) {
            const Line* const line = row.lines[i];
            table += line == nullptr ? "<td class=\"run\">-</td><td>-</td><td>-</td>"
                                     : fmt::format("<td class=\"run\">{}</td><td>{}</td><td>{}</td>", line->count,
                                                   waits_or_tests(call) ? "" : size_text(line->bytes),
                                                   time_text(time_of_rank(summaries[i], line)));
        }
        if (changes)
            table += fmt::format("<td class=\"run\">{}</td>", change_text(time_of_rank(summaries[0], row.lines[0]),
                                                                          time_of_rank(summaries[1], row.lines[1])));
        table += "</tr>\n";
    }
    return table + "</tbody></table></div>\n</section>\n";
}

std::string advice_list(const Summary& summary) {
    std::string items;
    for (const Advice& a : advice_for(summary))
        items +=
            fmt::format("<li>{} in {} call{} did not go over NCCL ({}): {}.<br>{}</li>\n", size_text(a.bytes), a.count,
                        a.count == 1 ? "" : "s", name(a.reason), escaped(explain(a.reason)), escaped(remedy(a.reason)));
    return items.empty() ? items : "<h3>Worth acting on</h3>\n<ol class=\"advice\">\n" + items + "</ol>\n";
}

std::string section(const NamedReport& report) {
    return fmt::format("<section>\n<h2>Report {}</h2>\n", escaped(report.name)) + about(report.summary) +
           advice_list(report.summary) + gpus(report.summary) + shares_list(report.summary) +
           shares_of_time(report.summary) + calls(report.summary) + "</section>\n";
}

std::string legend() {
    std::string text = "<p class=\"legend\">";
    for (const auto& [colour, what] :
         {std::pair("nccl", "call over NCCL, NCCL's operation"), std::pair("staged", "staged call"),
          std::pair("host", "call on host memory"), std::pair("peer", "copy within a process"),
          std::pair("copy", "copy to or from a device"), std::pair("kernel", "packing"),
          std::pair("part", "agreement, set-up")})
        text += fmt::format("<span class=\"word\">{}{}</span> ", key(colour), what);
    return text + "</p>\n";
}

std::string section(const NamedTimeline& named, std::size_t number) {
    std::uint64_t dropped = 0;
    for (const Timeline::Rank& rank : named.timeline.ranks)
        dropped += rank.dropped;
    return fmt::format(
               "<section>\n<h2>Trace {}</h2>\n<p>{} events on {} rank{}{}. Wheel: zoom. Drag: move. Double click: "
               "all.</p>\n{}",
               escaped(named.name), named.timeline.events(), named.timeline.ranks.size(),
               named.timeline.ranks.size() == 1 ? "" : "s",
               dropped == 0 ? "" : fmt::format("; {} later ones were dropped (SWITCHYARD_TRACE_EVENTS)", dropped),
               legend()) +
           fmt::format("<script type=\"application/json\" id=\"trace{}\">{}</script>\n", number,
                       as_script_data(named.timeline)) +
           fmt::format("<div class=\"timeline\" data-of=\"trace{}\"></div>\n</section>\n", number);
}

}  // namespace

std::string as_html(const std::vector<NamedReport>& reports, const std::vector<NamedTimeline>& timelines) {
    std::string page =
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
        "script-src 'unsafe-inline'\">\n"
        "<meta name=\"viewport\" content=\"width=device-width, "
        "initial-scale=1\">\n<title>Switchyard</title>\n<style>\n";
    page.append(kStyle).append("</style>\n</head>\n<body>\n<h1>Switchyard</h1>\n");
    page += "<p>The transports of a program's MPI calls, and why.</p>\n";
    if (!reports.empty())
        page +=
            "<p><label>Show lines with <input id=\"filter\" type=\"search\" placeholder=\"MPI_Send, staged, "
            "...\"></label></p>\n";
    if (reports.size() > 1)
        page += comparison(reports);
    for (const NamedReport& report : reports)
        page += section(report);
    for (std::size_t i = 0; i < timelines.size(); ++i)
        page += section(timelines[i], i);
    page += "<div id=\"hint\"></div>\n<footer>Written by switchyard report " PACKAGE_VERSION "</footer>\n<script>\n";
    return page.append(kScript).append("</script>\n</body>\n</html>\n");
}

}  // namespace swy::report
