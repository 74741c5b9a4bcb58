#include <nlohmann/json.hpp>

#include "report/summary.hpp"

namespace swy::report {

namespace {

nlohmann::ordered_json or_null(const std::string& text) {
    return text.empty() ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(text);
}

nlohmann::ordered_json or_null(double seconds) {
    return seconds <= 0 ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(seconds);
}

nlohmann::ordered_json or_null(const OfRank& time) {
    if (time.rank < 0)
        return nullptr;
    return {{"seconds", time.seconds}, {"rank", time.rank}};
}

}  // namespace

// The manual, switchyard(7), describes this object: change the two together.
std::string as_json(const Summary& summary) {
    nlohmann::ordered_json report;
    report["versions"] = {{"switchyard", summary.switchyard},
                          {"mpi", or_null(summary.mpi)},
                          {"nccl", or_null(summary.nccl)},
                          {"driver", or_null(summary.driver)}};
    report["run"] = {{"program", or_null(summary.run.program)},
                     {"began", or_null(summary.run.began)},
                     {"seconds", or_null(summary.run.seconds)},
                     {"settings", summary.run.settings}};
    nlohmann::ordered_json hosts = nlohmann::ordered_json::array();
    nlohmann::ordered_json devices = nlohmann::ordered_json::array();
    for (const Rank& rank : summary.ranks) {
        hosts.push_back(rank.host);
        devices.push_back(or_null(rank.device));
    }
    report["tools"] = {{"above", or_null(summary.tools_above)}, {"below", or_null(summary.tools_below)}};
    report["kernels_problem"] = or_null(summary.kernels);
    report["tuning"] = or_null(summary.tuning);
    report["cut_short"] = or_null(summary.cut_short);
    report["ranks"] = {{"number", summary.ranks.size()}, {"hosts", std::move(hosts)}};
    report["devices"] = std::move(devices);
    report["communicators"] = {{"made", summary.communicators.made},
                               {"reused", summary.communicators.reused},
                               {"evicted", summary.communicators.evicted},
                               {"live_max", summary.communicators.live_max}};
    report["size_limits"] = kSizeLimits;
    nlohmann::ordered_json calls = nlohmann::ordered_json::array();
    for (const Line& line : summary.lines) {
        calls.push_back({{"call", line.call},
                         {"carrier", name(line.carrier)},
                         {"count", line.count},
                         {"bytes", line.bytes},
                         {"seconds", line.seconds},
                         {"reason", name(line.reason)},
                         {"least", or_null(line.least)},
                         {"most", or_null(line.most)},
                         {"count_by_size", line.counts}});
    }
    report["calls"] = std::move(calls);
    return report.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace swy::report
