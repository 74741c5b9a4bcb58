// Stream captures under way: which streams take part in one, and what the next node of each comes after. The rules for
// calls meanwhile are vgpu/cuda/capture's.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "vgpu/core/graph.hpp"

namespace vgpu {

enum class CaptureMode { Global, ThreadLocal, Relaxed };

struct Capture {
    std::uint64_t id;
    CaptureMode mode;
    std::shared_ptr<Graph> graph;
    std::shared_ptr<Stream> origin;
    std::thread::id thread;  // that began it
    bool valid = true;
    bool ended = false;
    struct Place {
        Nodes after;                 // the stream's next node comes after these
        std::vector<Node*> handles;  // the same, as a program is given them
    };
    std::map<std::shared_ptr<Stream>, Place> streams;

    // Whether each node of each stream is one that the origin's next node would come after.
    bool joined() const;
};

// What an event recorded in a capture stands for.
struct CapturedRecord {
    std::shared_ptr<Capture> capture;
    Nodes after;
};

// All captures of the process. Every use of a Capture is under `lock`.
struct Captures {
    std::recursive_mutex lock;
    std::atomic<int> count{0};
    std::vector<std::shared_ptr<Capture>> all;

    bool any() const { return count.load(std::memory_order_acquire) != 0; }
    // The one that a stream takes part in; null outside all.
    std::shared_ptr<Capture> of(const Stream& stream) const;
    std::shared_ptr<Capture> begin(const std::shared_ptr<Stream>& origin, CaptureMode mode,
                                   std::shared_ptr<Graph> graph, Nodes after);
    void end(const std::shared_ptr<Capture>& capture);
    // Makes the stream's next work a node. False: the stream is not being captured.
    bool take(const std::shared_ptr<Stream>& stream, Work work, std::function<std::function<void()>()> prepare,
              bool hang);
};
Captures& captures();

}  // namespace vgpu
