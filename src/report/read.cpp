#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "report/summary.hpp"

namespace swy::report {

namespace {

using Json = nlohmann::json;

std::string text_of(const Json& value) {
    return value.is_null() ? "" : value.get<std::string>();
}

// Reasons that had another name in the last release.
std::string_view name_now(std::string_view text) {
    if (text == "no-lane")
        return name(Reason::kNoPairComm);
    if (text == "not-built")
        return name(Reason::kOutsideNccl);
    return text == "foreign" ? name(Reason::kSpansJobs) : text;
}

// The one of `count` values that has this name. A name that this version does not know is an error: it would be shown
// as something that it is not.
template <typename Word>
Word word_of(std::string_view text, int count) {
    for (int i = 0; i < count; ++i)
        if (name(static_cast<Word>(i)) == text)
            return static_cast<Word>(i);
    throw std::invalid_argument("\"" + std::string(text) + "\" is not known to this version of Switchyard");
}

OfRank of_rank(const Json& call, const char* member) {
    if (!call.contains(member) || call.at(member).is_null())
        return {};
    return {call.at(member).at("seconds"), call.at(member).at("rank")};
}

Line line_of(const Json& call, bool sizes) {
    Line line{call.at("call"),
              word_of<Carrier>(call.at("carrier").get<std::string_view>(), kCarriers),
              word_of<Reason>(name_now(call.at("reason").get<std::string_view>()), kReasons),
              call.at("count"),
              call.at("bytes"),
              call.at("seconds"),
              of_rank(call, "least"),
              of_rank(call, "most"),
              {}};
    if (sizes)
        line.counts = call.at("count_by_size").get<decltype(line.counts)>();
    return line;
}

Run run_of(const Json& run) {
    Run read;
    read.program = text_of(run.at("program"));
    read.began = text_of(run.at("began"));
    read.seconds = run.at("seconds").is_null() ? 0 : run.at("seconds").get<double>();
    read.settings = run.at("settings").get<std::vector<std::string>>();
    return read;
}

// What reports have had since 0.1.0 has to be there; the rest may be absent.
Summary summary_of(const Json& report) {
    Summary summary;
    const Json& versions = report.at("versions");
    summary.switchyard = text_of(versions.at("switchyard"));
    summary.mpi = text_of(versions.at("mpi"));
    summary.nccl = text_of(versions.at("nccl"));
    summary.driver = text_of(versions.at("driver"));
    summary.kernels = report.contains("kernels_problem") ? text_of(report.at("kernels_problem")) : "";
    summary.tuning = report.contains("tuning") ? text_of(report.at("tuning")) : "";
    summary.cut_short = report.contains("cut_short") ? text_of(report.at("cut_short")) : "";
    if (report.contains("tools")) {
        summary.tools_above = text_of(report.at("tools").at("above"));
        summary.tools_below = text_of(report.at("tools").at("below"));
    }
    const Json& hosts = report.at("ranks").at("hosts");
    const Json& devices = report.at("devices");
    for (std::size_t rank = 0; rank < hosts.size(); ++rank)
        summary.ranks.push_back({text_of(hosts.at(rank)), text_of(devices.at(rank))});
    const Json& communicators = report.at("communicators");
    summary.communicators = {communicators.at("made"), communicators.at("reused"), communicators.at("evicted"),
                             communicators.at("live_max")};
    if (report.contains("run"))
        summary.run = run_of(report.at("run"));
    // Sizes by other limits are not shown.
    const bool sizes = report.contains("size_limits") && report.at("size_limits") == Json(kSizeLimits);
    for (const Json& call : report.at("calls"))
        summary.lines.push_back(line_of(call, sizes));
    return summary;
}

}  // namespace

std::string from_json(const std::string& text, Summary& summary) {
    try {
        summary = summary_of(Json::parse(text));
    } catch (const std::exception& error) {
        return fmt::format("no report of a run ({}); SWITCHYARD_REPORT=json:FILE writes one", error.what());
    }
    if (summary.ranks.empty())
        return "a report of no rank";
    return {};
}

}  // namespace swy::report
