// Reports and traces as one page that needs nothing else: no network, no other file. For `switchyard report --html`.
#pragma once

#include <string>
#include <vector>

#include "report/summary.hpp"
#include "report/timeline.hpp"

namespace swy::report {

struct NamedReport {
    std::string name;  // of its file
    Summary summary;
};
struct NamedTimeline {
    std::string name;
    Timeline timeline;
};

std::string as_html(const std::vector<NamedReport>& reports, const std::vector<NamedTimeline>& timelines);

}  // namespace swy::report
