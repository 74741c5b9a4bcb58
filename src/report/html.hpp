// Reports and traces as one self-contained HTML page: it needs no network and no other file. For `switchyard report
// --html`.
#pragma once

#include <string>
#include <vector>

#include "report/summary.hpp"
#include "report/timeline.hpp"

namespace swy::report {

struct NamedReport {
    std::string name;  // the file's name
    Summary summary;
};
struct NamedTimeline {
    std::string name;
    Timeline timeline;
};

std::string as_html(const std::vector<NamedReport>& reports, const std::vector<NamedTimeline>& timelines);

}  // namespace swy::report
