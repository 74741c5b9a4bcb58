#include "report/trace_json.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>
#include <utility>

namespace swy::report::trace {

namespace {

using Json = nlohmann::ordered_json;

// Chrome's thread numbers: the program's threads from 0, streams from kFirstStream.
constexpr int kFirstStream = 1000;
constexpr std::size_t kLongestObject = 4096;

double microseconds(std::int64_t nanoseconds) {
    return static_cast<double>(nanoseconds) / 1e3;  // the nearest number: three digits when printed
}

std::string dumped(const Json& object) {
    return object.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Json arguments(const Event& event) {
    Json args = Json::object();
    if (event.is_call)
        args = {{"carrier", name(event.carrier)}, {"reason", name(event.reason)}};
    if (event.is_call || event.bytes != 0)
        args["bytes"] = event.bytes;
    if (event.pieces > 0)
        args["copies"] = event.pieces;
    if (event.unfinished)
        args["unfinished"] = true;
    return args;
}

std::string_view category(const Event& event) {
    if (event.track == Track::kStream)
        return event.pieces > 0 ? "copy" : event.name.starts_with("nccl") ? "nccl" : "kernel";
    if (event.track == Track::kOperation)
        return "operation";  // for its parts too: those of one name and number belong together
    return event.is_call ? "call" : "part";
}

}  // namespace

Batches::Batches(int rank, const std::string& host, std::span<const Event> events, std::size_t dropped,
                 const Clock& clock)
    : rank_(rank), events_(events), dropped_(dropped), clock_(clock), order_(events.size()) {
    // Of events with one begin the longest comes first: viewers draw the first one as the outer one.
    std::iota(order_.begin(), order_.end(), 0u);
    std::sort(order_.begin(), order_.end(), [&](std::uint32_t a, std::uint32_t b) {
        return std::pair(events[a].begin, events[b].end) < std::pair(events[b].begin, events[a].end);
    });
    name_tracks(host);
}

int Batches::track_of(const Event& event) const {
    return event.track == Track::kStream ? kFirstStream + streams_.at(event.where) : static_cast<int>(event.where);
}

void Batches::say(const std::string& object) {
    text_ += text_.empty() ? "" : ",\n";
    text_ += object;
}

void Batches::name_tracks(const std::string& host) {
    const auto named = [this](const char* what, int track, const std::string& value) {
        say(dumped({{"ph", "M"}, {"name", what}, {"pid", rank_}, {"tid", track}, {"args", {{"name", value}}}}));
    };
    std::set<std::uint64_t> threads{0};
    for (const Event& event : events_) {
        if (event.track == Track::kThread)
            threads.insert(event.where);
        else if (event.track == Track::kStream)
            streams_.emplace(event.where, static_cast<int>(streams_.size()));
    }
    named("process_name", 0, fmt::format("rank {} ({})", rank_, host));
    say(dumped({{"ph", "M"}, {"name", "process_sort_index"}, {"pid", rank_}, {"args", {{"sort_index", rank_}}}}));
    for (const std::uint64_t thread : threads)
        named("thread_name", static_cast<int>(thread), thread == 0 ? "MPI calls" : fmt::format("MPI calls {}", thread));
    for (const auto& [handle, number] : streams_)
        named("thread_name", kFirstStream + number, fmt::format("stream {}", number));
}

void Batches::write(const Event& event) {
    const std::int64_t begin = clock_.since_start(event.begin);
    const std::int64_t end = std::max(clock_.since_start(event.end), begin);
    Json object = {{"name", event.name}, {"cat", category(event)},   {"ph", "X"}, {"pid", rank_},
                   {"tid", 0},           {"ts", microseconds(begin)}};
    if (event.track != Track::kOperation) {
        object["tid"] = track_of(event);
        object["dur"] = microseconds(end - begin);
        object["args"] = arguments(event);
        return say(dumped(object));
    }
    object["ph"] = "b";
    object["id2"] = {{"local", fmt::format("{:#x}", event.where)}};
    object["args"] = arguments(event);
    say(dumped(object));
    object["ph"] = "e";
    object["ts"] = microseconds(end);
    object.erase("args");
    say(dumped(object));
}

// Marks where the record ends because events were dropped.
void Batches::write_end(std::size_t dropped) {
    if (dropped == 0 || events_.empty())
        return;
    say(dumped({{"name", fmt::format("{} later events were dropped (SWITCHYARD_TRACE_EVENTS)", dropped)},
                {"cat", "dropped"},
                {"ph", "i"},
                {"s", "p"},
                {"pid", rank_},
                {"tid", 0},
                {"ts", microseconds(clock_.since_start(events_.back().end))}}));
}

std::string Batches::next() {
    while (next_ < events_.size() && text_.size() + 2 * kLongestObject < kBatchBytes)
        write(events_[order_[next_++]]);
    if (next_ == events_.size() && !std::exchange(ended_, true))
        write_end(dropped_);
    return std::exchange(text_, {});
}

}  // namespace swy::report::trace
