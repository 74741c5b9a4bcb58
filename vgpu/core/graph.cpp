#include "vgpu/core/graph.hpp"

#include <algorithm>

#include "vgpu/core/context.hpp"

namespace vgpu {

Registry<Graph>& graph_handles() {
    static auto& all = *new Registry<Graph>;
    return all;
}

Registry<Node>& node_handles() {
    static auto& all = *new Registry<Node>;
    return all;
}

Graph::~Graph() {
    for (const auto& node : nodes_)
        node_handles().remove(node.get());
}

std::shared_ptr<Node> Graph::add(Node node) {
    auto added = std::make_shared<Node>(std::move(node));
    node_handles().add(added);
    const std::lock_guard guard(lock_);
    nodes_.push_back(added);
    return added;
}

Nodes Graph::nodes() const {
    const std::lock_guard guard(lock_);
    return nodes_;
}

Executable::Executable(const Nodes& nodes) {
    for (const auto& node : nodes)
        add(node);
}

// A node stays on the stream of one that it comes after where no other has come there yet.
void Executable::add(const std::shared_ptr<Node>& node) {
    Step step{node, nullptr, {}, node->after.empty(), true};
    for (const auto& earlier : node->after) {
        const auto found =
            std::find_if(steps_.begin(), steps_.end(), [&](const Step& other) { return other.node == earlier; });
        const bool free =
            std::none_of(found + 1, steps_.end(), [&](const Step& later) { return later.branch == found->branch; });
        if (step.branch == nullptr && free && &earlier->context == &node->context)
            step.branch = found->branch;
        else
            step.after.push_back(static_cast<std::size_t>(found - steps_.begin()));
        found->last = false;
    }
    if (step.branch == nullptr)
        step.branch = node->context.create_stream(false, 0);
    steps_.push_back(std::move(step));
}

Executable::~Executable() {
    for (const Step& step : steps_)
        if (!step.branch->closed())
            step.node->context.forget_stream(step.branch);
}

void Executable::launch(const std::shared_ptr<Stream>& stream, bool hang) {
    const std::lock_guard guard(lock_);
    std::vector<Mark> before;
    if (ended_.stream != nullptr)
        before.push_back(ended_);
    const Mark begun = stream->context().submit(stream, Work::Empty, {}, std::move(before), hang);
    std::vector<Mark> marks;
    std::vector<Mark> ends;
    for (const Step& step : steps_) {
        std::vector<Mark> after;
        if (step.first)
            after.push_back(begun);
        for (const std::size_t earlier : step.after)
            after.push_back(marks[earlier]);
        marks.push_back(step.node->context.submit(step.branch, step.node->work, step.node->prepare(), std::move(after),
                                                  step.node->hang));
        if (step.last)
            ends.push_back(marks.back());
    }
    ended_ = stream->context().submit(stream, Work::Empty, {}, std::move(ends));
}

}  // namespace vgpu
