// Contexts: the primary one of each device and those a program makes. A context owns the order between its streams.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <unordered_map>
#include <vector>

#include "vgpu/core/stream.hpp"

namespace vgpu {

struct Device;

class Context {
  public:
    Context(Device& device, bool primary, unsigned flags);

    Device& device() const { return device_; }
    bool primary() const { return primary_; }
    std::uint64_t id() const { return id_; }
    bool active() const { return active_.load(std::memory_order_acquire); }
    std::atomic<unsigned> flags;

    // A kernel's failure, a CUresult, which every later call on the context returns; 0 where there was none. The first
    // stays: fail() returns whether it was this one.
    int error() const { return error_.load(std::memory_order_acquire); }
    bool fail(int error) {
        int none = 0;
        return error_.compare_exchange_strong(none, error);
    }

    // Queues an operation on a stream, in CUDA's implicit order: the legacy stream waits for all blocking streams of
    // the context and they wait for it. With `hang` the operation is accepted and never completes. Where the stream is
    // being captured, the operation becomes a node of the graph, `after` is without meaning and nothing is returned.
    Mark submit(const std::shared_ptr<Stream>& stream, Work work, std::function<void()> run,
                std::vector<Mark> after = {}, bool hang = false);
    // The same, but runs the operation on the calling thread: for calls that return when it is complete.
    void run(const std::shared_ptr<Stream>& stream, const std::function<void()>& run, bool hang = false);

    std::shared_ptr<Stream> create_stream(bool blocking, int priority);
    void forget_stream(const std::shared_ptr<Stream>& stream);
    const std::shared_ptr<Stream>& legacy() const { return legacy_; }
    std::shared_ptr<Stream> per_thread();  // the calling thread's default stream
    std::vector<std::shared_ptr<Stream>> streams() const;
    // Waits for everything submitted so far, in all streams, non-blocking ones too.
    void synchronize();

    // Held while a program's host function runs: the driver runs one at a time.
    std::mutex& host_functions() { return host_functions_; }

    // Peers whose memory kernels of this context may address.
    bool enable_peer(Context& peer);
    bool disable_peer(Context& peer);
    bool reaches(const Device& other) const;

    // A primary context becomes usable again by `activate`; others never.
    void activate();
    // Waits for the work, ends the streams, clears the peers. The caller frees what else belonged to the context.
    void deactivate();

  private:
    std::vector<Mark> implied(const Stream& stream);  // under order_

    Device& device_;
    const bool primary_;
    const std::uint64_t id_;
    std::atomic<bool> active_{false};
    std::atomic<int> error_{0};

    std::mutex host_functions_;
    std::vector<HardwareQueue> hardware_queues_;
    mutable std::mutex order_;  // held while an operation is queued, never while one runs
    std::shared_ptr<Stream> legacy_;
    std::vector<std::shared_ptr<Stream>> streams_;  // all but the legacy one
    std::unordered_map<std::uint64_t, std::shared_ptr<Stream>> per_thread_;
    std::set<Context*> peers_;
};

// The calling thread's stack of contexts. Contexts are never freed, so a stale entry is an error and not a crash.
Context* current_context();
void set_current_context(Context* context);  // replaces the top; nullptr pops
void push_context(Context* context);
bool pop_context(Context** popped);

// Returns whether this process has made a context at this address, even if it has been destroyed since.
bool known_context(const Context* context);
Context* create_context(Device& device, unsigned flags);

// The device's primary context and how often it is retained.
struct Primary {
    std::mutex lock;
    Context* context = nullptr;  // made on first use, the same ever after
    unsigned flags = 0;
    int retained = 0;
};
Primary& primary_of(Device& device);
// Returns the device's primary context, retained or not; makes it if there is none.
Context& primary_context(Primary& primary, Device& device);

}  // namespace vgpu
