#include "report/advice.hpp"

#include <algorithm>

namespace swy::report {

std::vector<Advice> advice_for(const Summary& summary) {
    std::vector<Advice> found;
    for (const Line& line : summary.lines) {
        const bool on_devices = line.carrier == Carrier::kNccl || line.carrier == Carrier::kPeer;
        if (on_devices || remedy(line.reason).empty())
            continue;
        auto at = std::find_if(found.begin(), found.end(), [&](const Advice& a) { return a.reason == line.reason; });
        if (at == found.end())
            at = found.insert(found.end(), {line.reason});
        at->count += line.count;
        at->bytes += line.bytes;
        at->seconds += line.seconds;
    }
    std::stable_sort(found.begin(), found.end(),
                     [](const Advice& a, const Advice& b) { return a.seconds > b.seconds; });
    return found;
}

}  // namespace swy::report
