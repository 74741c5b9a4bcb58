#include "cli/tune_table.hpp"

#include <fmt/format.h>

#include "cli/json.hpp"
#include "cli/measured_calls.hpp"
#include "config.h"
#include "report/units.hpp"
#include "settings/tuning_file.hpp"

namespace swy::cli {

namespace {

Json as_json(std::size_t threshold) {
    return threshold == settings::kNever ? Json(nullptr) : Json(threshold);
}

double microseconds(double seconds) {
    return static_cast<double>(static_cast<long>(seconds * 1e7 + 0.5)) / 10;
}

}  // namespace

std::size_t crossing(const Points& points) {
    std::size_t from = settings::kNever;
    for (auto point = points.rbegin(); point != points.rend(); ++point) {
        // By the times as the file has them, from which a reader would find the same.
        if (point->second.nccl <= 0 || microseconds(point->second.staged) <= microseconds(point->second.nccl))
            break;
        from = point->first;
    }
    return from;
}

// The manual, switchyard-tune(1), describes this object: the two change together.
std::string tuning_json(const Measurements& all) {
    Json file;
    file["switchyard_tuning"] = 1;
    file["written_by"] = "switchyard " PACKAGE_VERSION;
    file["host"] = all.machine.host;
    file["virtual"] = all.machine.is_virtual;
    file["gpu"] = all.machine.gpu;
    file["nccl"] = all.machine.nccl;
    file["ranks"] = all.machine.ranks;
    file["nodes"] = all.machine.nodes;
    Json& thresholds = file["thresholds"] = Json::object();
    for (const auto& [name, points] : all.calls)
        thresholds[name] = as_json(crossing(points));
    for (const auto& [name, like] : kLikeMeasured)
        if (const auto call = all.calls.find(std::string(like)); call != all.calls.end())
            thresholds[std::string(name)] = as_json(crossing(call->second));
    Json& measured = file["measured"] = Json::array();
    for (const auto& [name, points] : all.calls)
        for (const auto& [bytes, point] : points)
            measured.push_back({{"call", name},
                                {"bytes", bytes},
                                {"staged_us", microseconds(point.staged)},
                                {"nccl_us", microseconds(point.nccl)}});
    return file.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string tuning_text(const Measurements& all) {
    const TunedMachine& machine = all.machine;
    std::string text = fmt::format("{} ranks on {} node{}, {}, NCCL {}\n", machine.ranks, machine.nodes,
                                   machine.nodes == 1 ? "" : "s", machine.gpu, machine.nccl);
    if (machine.is_virtual)
        text +=
            "These GPUs are virtual: the times are those of this computer's processors, and say nothing of a GPU.\n";
    text += fmt::format("\n  {:<26} {:<14} {:>10} {:>12} {:>12}\n", "call", "NCCL from", "at size", "staged", "NCCL");
    for (const auto& [name, points] : all.calls) {
        const std::size_t from = crossing(points);
        const auto shown = from == settings::kNever ? std::prev(points.end()) : points.find(from);
        text +=
            fmt::format("  {:<26} {:<14} {:>10} {:>12} {:>12}\n", name,
                        from == settings::kNever ? "never" : report::size_text(from), report::size_text(shown->first),
                        report::time_text(shown->second.staged), report::time_text(shown->second.nccl));
    }
    for (const auto& [name, why] : all.not_over_nccl)
        text += fmt::format("  {:<26} not over NCCL: {}\n", name, why);
    return text;
}

}  // namespace swy::cli
