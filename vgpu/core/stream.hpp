// Streams: each is a queue of operations and, once something asynchronous is put into it, a thread that runs them in
// order. A synchronous call runs its operation on the calling thread when its turn comes. No lock is held while an
// operation runs.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

namespace vgpu {

class Context;

// A position in a stream's order: done when everything up to it has completed.
class Stream;
struct Mark {
    std::shared_ptr<Stream> stream;
    std::uint64_t ticket = 0;
};

// A hardware queue, which the work of several streams goes through on its way to the multiprocessors. What is at its
// head waits for what it comes after in its stream, or for an event, and holds up what other streams have behind it.
class HardwareQueue {
  public:
    // Takes the next place. The places must be taken in the order in which the work is queued.
    std::uint64_t join() { return joined_.fetch_add(1); }
    // Called when nothing else holds the work up: waits until all before it have been issued.
    void await(std::uint64_t place);
    void issue();  // the one whose turn it is, so that the next one's comes

  private:
    std::atomic<std::uint64_t> joined_{0};
    std::mutex lock_;
    std::condition_variable changed_;
    std::uint64_t issued_ = 0;
};

// What an operation is. A kernel leaves its hardware queue when it starts, a wait for another process's event, a host
// function and a batch of memory operations when they end. Copies have engines with queues of their own, and what is
// empty, as an event's record, holds up nothing.
enum class Work { Empty, Copy, Fill, Kernel, HostFunction, MemoryOperations, Wait, SharedWait };
enum class Queue { None, UntilStart, UntilEnd };
Queue queue_of(Work work);

enum class StreamKind { Legacy, PerThread, Created };

class Stream : public std::enable_shared_from_this<Stream> {
  public:
    Stream(Context& context, StreamKind kind, bool blocking, int priority, std::vector<HardwareQueue>& queues);

    Context& context() const { return context_; }
    StreamKind kind() const { return kind_; }
    bool blocking() const { return blocking_; }  // takes part in the legacy default stream's implicit order
    int priority() const { return priority_; }
    std::uint64_t id() const { return id_; }

    // The order between streams is the context's: only Context::submit and Context::run call these two.
    std::uint64_t enqueue(std::vector<Mark> after, std::function<void()> run, bool hang, Queue queued);
    std::uint64_t take_ticket();
    // Waits for the ticket's turn, runs on this thread, completes the ticket.
    void run_here(std::uint64_t ticket, const std::vector<Mark>& after, const std::function<void()>& run);

    bool done(std::uint64_t ticket) const { return completed_.load(std::memory_order_acquire) >= ticket; }
    void wait(std::uint64_t ticket);
    std::uint64_t last() const { return issued_.load(std::memory_order_acquire); }
    bool idle() const { return done(last()); }

    // The worker ends once the queue is empty; until then the stream lives on.
    void close();
    bool closed() const { return closing_.load(std::memory_order_relaxed); }
    // At the process's end: ends workers that have nothing to do, leaves the others.
    static void end_idle_workers();

  private:
    struct Operation {
        std::uint64_t ticket;
        std::vector<Mark> after;
        std::function<void()> run;
        bool hang;
        Queue queued;
        std::uint64_t place;  // in the hardware queue
    };
    void work();
    void work_and_leave();
    void complete(std::uint64_t ticket);
    void start_worker();

    Context& context_;
    const StreamKind kind_;
    const bool blocking_;
    const int priority_;
    const std::uint64_t id_;
    HardwareQueue& hardware_queue_;

    std::mutex lock_;
    std::condition_variable changed_;
    std::deque<Operation> queue_;
    std::atomic<std::uint64_t> issued_{0};
    std::atomic<std::uint64_t> completed_{0};
    bool worker_ = false;
    std::atomic<bool> closing_{false};
};

// Blocks for ever: what VGPU_FAULTS calls a hang.
[[noreturn]] void hang_here();

}  // namespace vgpu
