// A trace in the form in which the HTML page draws it: each rank's tracks as rows of events that do not overlap.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace swy::report {

struct Timeline {
    struct Kind {  // what many events have in common
        std::string name, category, carrier, reason;
        bool operator==(const Kind&) const = default;
    };
    struct Drawn {
        double begin = 0, length = 0;  // microseconds
        int row = 0;                   // of the track
        std::size_t kind = 0;
        std::uint64_t bytes = 0;
        std::size_t communicator = 0;  // 0: none is known
        int peer = -1, tag = -1;       // negative where they are not known, and of what is no message
    };
    struct Track {
        std::string name;
        std::vector<Drawn> events;  // by begin
        int rows = 1;
    };
    struct Rank {
        std::string name;
        std::vector<Track> tracks;
        std::uint64_t dropped = 0;
    };
    std::vector<Kind> kinds;
    std::vector<std::string> communicators{""};
    std::vector<Rank> ranks;
    std::size_t events() const;
};

bool is_trace(const std::string& text);  // a JSON object with traceEvents, judged by its beginning

// Reads what SWITCHYARD_TRACE wrote. Returns "" or the error; the timeline is then unspecified.
std::string from_trace(const std::string& text, Timeline& timeline);

// The object that the page's script reads.
std::string as_script_data(const Timeline& timeline);

}  // namespace swy::report
