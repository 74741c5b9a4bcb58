#include "report/html.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "config.h"
#include "report/advice.hpp"
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

std::string about(const Summary& summary) {
    std::string text =
        fmt::format("Switchyard {}, {} rank{}, {}", summary.switchyard, summary.ranks.size(),
                    summary.ranks.size() == 1 ? "" : "s", summary.mpi.empty() ? "unknown MPI" : summary.mpi);
    if (!summary.nccl.empty())
        text += ", NCCL " + summary.nccl;
    if (!summary.driver.empty())
        text += ", driver " + summary.driver;
    if (!summary.cut_short.empty())
        text += "; up to then: " + summary.cut_short;
    return "<p>" + escaped(text) + "</p>\n";
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
    std::string bar = fmt::format("<p>Data in device memory: {}</p>\n<div class=\"shares\">", size_text(all));
    for (Carrier carrier : {Carrier::kNccl, Carrier::kPeer, Carrier::kStaged})
        if (const std::uint64_t part = bytes[static_cast<std::size_t>(carrier)]; part != 0) {
            const double share = 100 * static_cast<double>(part) / static_cast<double>(all);
            bar += fmt::format("<span class=\"{}\" style=\"width:{:.2f}%\">{} {} ({:.1f} %)</span>", name(carrier),
                               share, name(carrier), size_text(part), share);
        }
    return bar + "</div>\n";
}

std::string calls(const Summary& summary) {
    std::vector<Line> lines = summary.lines;
    std::stable_sort(lines.begin(), lines.end(), [](const Line& a, const Line& b) { return a.seconds > b.seconds; });
    std::string table =
        "<table><thead><tr><th>call</th><th class=\"word\">transport</th><th>calls</th><th>data</th><th>time/call</th>"
        "<th>time/rank</th><th class=\"word\">why</th></tr></thead><tbody>\n";
    for (const Line& line : lines)
        table += fmt::format(
            "<tr><td>{}</td><td class=\"word\">{}{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td "
            "class=\"why\">{}</td></tr>\n",
            escaped(line.call), key(name(line.carrier)), name(line.carrier), line.count, size_text(line.bytes),
            time_text(line.seconds / static_cast<double>(std::max<std::uint64_t>(line.count, 1))),
            time_text(line.seconds / static_cast<double>(summary.ranks.size())),
            line.reason == Reason::kNone ? ""
                                         : fmt::format("{}: {}", name(line.reason), escaped(explain(line.reason))));
    return table + "</tbody></table>\n<p>Calls and data are summed over ranks.</p>\n";
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
           shares_list(report.summary) + calls(report.summary) + advice_list(report.summary) + "</section>\n";
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
        "<meta name=\"viewport\" content=\"width=device-width\">\n<title>Switchyard</title>\n<style>\n";
    page.append(kStyle).append("</style>\n</head>\n<body>\n<h1>Switchyard</h1>\n");
    page += "<p>The transports of a program's MPI calls, and why.</p>\n";
    for (const NamedReport& report : reports)
        page += section(report);
    for (std::size_t i = 0; i < timelines.size(); ++i)
        page += section(timelines[i], i);
    page += "<div id=\"hint\"></div>\n<footer>Written by switchyard report " PACKAGE_VERSION "</footer>\n<script>\n";
    return page.append(kScript).append("</script>\n</body>\n</html>\n");
}

}  // namespace swy::report
