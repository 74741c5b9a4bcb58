#include "report/timeline.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <tuple>

#include "call/reason.hpp"

namespace swy::report {

namespace {

using Json = nlohmann::json;

constexpr int kMessages = 998, kOperations = 999;  // the tracks of these, between threads and streams

struct TrackKey {  // of a track
    int rank, track;
    auto operator<=>(const TrackKey&) const = default;
};

// Collects events by track, and matches the ends of operations with their begins.
class Reader {
  public:
    explicit Reader(Timeline& timeline) : timeline_(timeline) {}

    void add(const Json& event) {
        const std::string phase = event.at("ph");
        if (phase == "M")
            name(event);
        else if (phase == "X")
            put({event.at("pid"), track_of(event)}, drawn(event, event.at("dur").get<double>()));
        else if (phase == "b")
            open_[id_of(event)].push_back(drawn(event, 0));
        else if (phase == "e")
            close(event);
    }

    void finish(const Json& dropped) {
        for (auto& [key, events] : tracks_) {
            const auto rank = static_cast<std::size_t>(key.rank);
            timeline_.ranks.resize(std::max(timeline_.ranks.size(), rank + 1));
            timeline_.ranks[rank].tracks.push_back({track_name(key), std::move(events)});
            lay_out(timeline_.ranks[rank].tracks.back());
        }
        for (std::size_t rank = 0; rank < timeline_.ranks.size(); ++rank) {
            timeline_.ranks[rank].name = names_.contains(rank) ? names_[rank] : fmt::format("rank {}", rank);
            timeline_.ranks[rank].dropped = rank < dropped.size() ? dropped.at(rank).get<std::uint64_t>() : 0;
        }
    }

  private:
    using Id = std::tuple<int, std::string, std::string>;

    static Id id_of(const Json& event) { return {event.at("pid"), event.at("id2").at("local"), event.at("name")}; }

    void name(const Json& event) {
        if (event.at("name") == "process_name")
            names_[event.at("pid")] = event.at("args").at("name");
        else if (event.at("name") == "thread_name")
            track_names_[{event.at("pid"), event.at("tid")}] = event.at("args").at("name");
    }

    // The trace has a track for each row of messages.
    static int track_of(const Json& event) {
        return event.at("cat") == "message" ? kMessages : event.at("tid").get<int>();
    }

    std::string track_name(const TrackKey& key) {
        return key.track == kOperations ? "operations" : key.track == kMessages ? "messages" : track_names_[key];
    }

    template <typename Value>
    static std::size_t index_in(std::vector<Value>& values, Value value) {
        const auto at = std::find(values.begin(), values.end(), value);
        if (at != values.end())
            return static_cast<std::size_t>(at - values.begin());
        values.push_back(std::move(value));
        return values.size() - 1;
    }

    std::size_t kind_of(const Json& event, const Json& args) {
        return index_in(timeline_.kinds,
                        {event.at("name"), event.at("cat"), args.value("carrier", ""), args.value("reason", "")});
    }

    Timeline::Drawn drawn(const Json& event, double length) {
        const Json args = event.value("args", Json::object());
        return {event.at("ts"),
                length,
                0,
                kind_of(event, args),
                args.value("bytes", std::uint64_t{0}),
                index_in(timeline_.communicators, args.value("communicator", std::string())),
                args.value("peer", -1),
                args.value("tag", -1)};
    }

    void put(const TrackKey& key, const Timeline::Drawn& event) {
        if (key.rank < 0 || key.rank >= 1 << 20)
            throw std::out_of_range("an event of no rank");
        tracks_[key].push_back(event);
    }

    void close(const Json& event) {
        auto& begun = open_[id_of(event)];
        if (begun.empty())
            return;
        Timeline::Drawn whole = begun.back();
        begun.pop_back();
        whole.length = event.at("ts").get<double>() - whole.begin;
        put({event.at("pid"), kOperations}, whole);
    }

    // Puts each event into the first row that is free when it begins: an event that lies within another, or overlaps
    // with it, goes below.
    static void lay_out(Timeline::Track& track) {
        std::sort(track.events.begin(), track.events.end(), [](const auto& a, const auto& b) {
            return std::pair(a.begin, -a.length) < std::pair(b.begin, -b.length);
        });
        std::vector<double> ends;
        for (Timeline::Drawn& event : track.events) {
            const auto free = std::find_if(ends.begin(), ends.end(), [&](double end) { return end <= event.begin; });
            event.row = static_cast<int>(free - ends.begin());
            if (free == ends.end())
                ends.push_back(0);
            ends[static_cast<std::size_t>(event.row)] = event.begin + event.length;
        }
        track.rows = std::max(static_cast<int>(ends.size()), 1);
    }

    Timeline& timeline_;
    std::map<TrackKey, std::vector<Timeline::Drawn>> tracks_;
    std::map<TrackKey, std::string> track_names_;
    std::map<std::size_t, std::string> names_;
    std::map<Id, std::vector<Timeline::Drawn>> open_;
};

// Returns the name of the page's colour for this kind of event.
std::string colour_of(const Timeline::Kind& kind) {
    if (!kind.carrier.empty())
        return kind.carrier;
    if (kind.category == "nccl" || kind.category == "copy" || kind.category == "kernel")
        return kind.category;
    return "part";
}

Json kinds_of(const Timeline& timeline) {
    Json kinds = Json::array();
    for (const Timeline::Kind& kind : timeline.kinds)
        kinds.push_back(
            {{"name", kind.name}, {"carrier", kind.carrier}, {"reason", kind.reason}, {"colour", colour_of(kind)}});
    return kinds;
}

Json tracks_of(const Timeline::Rank& rank, double& begin, double& end) {
    Json tracks = Json::array();
    for (const Timeline::Track& track : rank.tracks) {
        Json events = Json::array();
        for (const Timeline::Drawn& event : track.events) {
            begin = std::min(begin, event.begin);
            end = std::max(end, event.begin + event.length);
            events.push_back(Json::array({event.begin, event.length, event.row, event.kind, event.bytes}));
            if (event.communicator != 0 || event.peer >= 0)  // few events have more than that
                for (const std::int64_t more :
                     {static_cast<std::int64_t>(event.communicator), std::int64_t{event.peer}, std::int64_t{event.tag}})
                    events.back().push_back(more);
        }
        tracks.push_back({{"name", track.name}, {"rows", track.rows}, {"events", std::move(events)}});
    }
    return tracks;
}

}  // namespace

std::size_t Timeline::events() const {
    std::size_t all = 0;
    for (const Rank& rank : ranks)
        for (const Track& track : rank.tracks)
            all += track.events.size();
    return all;
}

bool is_trace(const std::string& text) {
    return text.substr(0, 1 << 20).find("\"traceEvents\"") != std::string::npos;
}

std::string from_trace(const std::string& text, Timeline& timeline) {
    try {
        const Json trace = Json::parse(text);
        Reader reader(timeline);
        for (const Json& event : trace.at("traceEvents"))
            reader.add(event);
        reader.finish(trace.at("otherData").at("dropped"));
    } catch (const std::exception& error) {
        return fmt::format("no trace of a run ({}); SWITCHYARD_TRACE=FILE writes one", error.what());
    }
    return timeline.ranks.empty() ? "a trace without events" : "";
}

std::string as_script_data(const Timeline& timeline) {
    double begin = timeline.events() == 0 ? 0 : std::numeric_limits<double>::max();
    double end = 0;
    Json ranks = Json::array();
    for (const Timeline::Rank& rank : timeline.ranks)
        ranks.push_back({{"name", rank.name}, {"tracks", tracks_of(rank, begin, end)}});
    Json reasons = Json::object();
    for (int i = 0; i < kReasons; ++i)
        reasons[std::string(name(static_cast<Reason>(i)))] = explain(static_cast<Reason>(i));
    const Json data = {{"begin", begin},
                       {"end", end},
                       {"kinds", kinds_of(timeline)},
                       {"communicators", timeline.communicators},
                       {"reasons", std::move(reasons)},
                       {"ranks", std::move(ranks)}};
    // Within an HTML page "</" would end the script element.
    std::string text = data.dump(-1, ' ', true, Json::error_handler_t::replace);
    for (std::size_t at = text.find('<'); at != std::string::npos; at = text.find('<', at))
        text.replace(at, 1, "\\u003c");
    return text;
}

}  // namespace swy::report
