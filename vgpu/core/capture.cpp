#include "vgpu/core/capture.hpp"

#include <algorithm>
#include <set>

namespace vgpu {

Captures& captures() {
    static auto& all = *new Captures;
    return all;
}

bool Capture::joined() const {
    std::set<const Node*> reached;
    std::vector<const Node*> open;
    const auto reach = [&](const Nodes& nodes) {
        for (const auto& node : nodes)
            if (reached.insert(node.get()).second)
                open.push_back(node.get());
    };
    reach(streams.at(origin).after);
    while (!open.empty()) {
        const Node* const node = open.back();
        open.pop_back();
        reach(node->after);
    }
    return std::all_of(streams.begin(), streams.end(), [&](const auto& entry) {
        return std::all_of(entry.second.after.begin(), entry.second.after.end(),
                           [&](const auto& node) { return reached.contains(node.get()); });
    });
}

std::shared_ptr<Capture> Captures::of(const Stream& stream) const {
    for (const auto& capture : all)
        for (const auto& [member, place] : capture->streams)
            if (member.get() == &stream)
                return capture;
    return nullptr;
}

std::shared_ptr<Capture> Captures::begin(const std::shared_ptr<Stream>& origin, CaptureMode mode,
                                         std::shared_ptr<Graph> graph, Nodes after) {
    static std::uint64_t next = 1;
    auto capture = std::make_shared<Capture>(
        Capture{next++, mode, std::move(graph), origin, std::this_thread::get_id(), true, false, {}});
    capture->streams[origin].after = std::move(after);
    all.push_back(capture);
    ++count;
    return capture;
}

void Captures::end(const std::shared_ptr<Capture>& capture) {
    capture->ended = true;
    capture->streams.clear();
    std::erase(all, capture);
    count = static_cast<int>(all.size());
}

bool Captures::take(const std::shared_ptr<Stream>& stream, Work work, std::function<std::function<void()>()> prepare,
                    bool hang) {
    if (!any())
        return false;
    const std::lock_guard guard(lock);
    const auto capture = of(*stream);
    if (capture == nullptr)
        return false;
    if (capture->valid) {
        Nodes& after = capture->streams[stream].after;
        after = {capture->graph->add({stream->context(), work, std::move(prepare), hang, after})};
    }
    return true;
}

}  // namespace vgpu
