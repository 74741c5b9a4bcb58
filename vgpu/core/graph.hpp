// Graphs: work with an order of its own, which is put onto streams as often as the program launches it.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "vgpu/core/process.hpp"
#include "vgpu/core/stream.hpp"

namespace vgpu {

struct Node;
class Context;
using Nodes = std::vector<std::shared_ptr<Node>>;

struct Node {
    Context& context;
    Work work;
    // Called in each launch of the graph; what it returns runs when the node's turn comes.
    std::function<std::function<void()>()> prepare;
    bool hang = false;
    Nodes after;
};

// Nodes are added after those that they come after, so that their order in the list is one in which they may run.
class Graph {
  public:
    Graph() = default;
    ~Graph();
    Graph(const Graph&) = delete;
    Graph& operator=(const Graph&) = delete;

    std::shared_ptr<Node> add(Node node);
    Nodes nodes() const;

  private:
    mutable std::mutex lock_;
    Nodes nodes_;
};

Registry<Graph>& graph_handles();
Registry<Node>& node_handles();

// A graph as it was when it was instantiated, with streams of its own for what may run at the same time.
class Executable {
  public:
    explicit Executable(const Nodes& nodes);
    ~Executable();
    Executable(const Executable&) = delete;
    Executable& operator=(const Executable&) = delete;

    // Queues all nodes behind what `stream` and earlier launches have; what comes later in `stream` waits for them.
    void launch(const std::shared_ptr<Stream>& stream, bool hang);

  private:
    struct Step {
        std::shared_ptr<Node> node;
        std::shared_ptr<Stream> branch;
        std::vector<std::size_t> after;  // steps on other branches
        bool first = false;              // comes after no other step
        bool last = false;               // no other step comes after it
    };
    void add(const std::shared_ptr<Node>& node);

    std::mutex lock_;  // held while a launch is queued
    std::vector<Step> steps_;
    Mark ended_;  // of the last launch
};

}  // namespace vgpu
