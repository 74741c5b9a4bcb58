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
    for (const Json& call : report.at("calls"))
        summary.lines.push_back({call.at("call"),
                                 word_of<Carrier>(call.at("carrier").get<std::string_view>(), kCarriers),
                                 word_of<Reason>(name_now(call.at("reason").get<std::string_view>()), kReasons),
                                 call.at("count"), call.at("bytes"), call.at("seconds")});
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
