#include "vgpu/core/stream.hpp"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <system_error>
#include <thread>
#include <unordered_map>

#include <unistd.h>

#include "vgpu/core/process.hpp"
#include "vgpu/core/settings.hpp"
#include "vgpu/private.h"

namespace vgpu {
namespace {

std::atomic<std::uint64_t> g_next_id{1};

// The workers there are, so that the process's end can end and join those that are idle.
struct Worker {
    std::thread thread;
    bool finished = false;
};

struct Workers {
    std::mutex lock;
    std::condition_variable changed;
    std::unordered_map<Stream*, Worker> by_stream;
};

Workers& workers() {
    static auto& all = *new Workers;
    return all;
}

}  // namespace

Queue queue_of(Work work) {
    switch (work) {
        case Work::Fill:
        case Work::Kernel:
        case Work::Wait:
            return Queue::UntilStart;
        case Work::HostFunction:
        case Work::MemoryOperations:
        case Work::SharedWait:
            return Queue::UntilEnd;
        default:
            return Queue::None;
    }
}

void hang_here() {
    while (true)
        pause();
}

void HardwareQueue::await(std::uint64_t place) {
    std::unique_lock guard(lock_);
    changed_.wait(guard, [&] { return issued_ == place; });
}

void HardwareQueue::issue() {
    const std::lock_guard guard(lock_);
    ++issued_;
    changed_.notify_all();
}

Stream::Stream(Context& context, StreamKind kind, bool blocking, int priority, std::vector<HardwareQueue>& queues)
    : context_(context),
      kind_(kind),
      blocking_(blocking),
      priority_(priority),
      id_(g_next_id.fetch_add(1)),
      hardware_queue_(queues[id_ % queues.size()]) {}

std::uint64_t Stream::take_ticket() {
    return issued_.fetch_add(1, std::memory_order_acq_rel) + 1;
}

std::uint64_t Stream::enqueue(std::vector<Mark> after, std::function<void()> run, bool hang, Queue queued) {
    const std::lock_guard guard(lock_);
    const std::uint64_t ticket = take_ticket();
    const std::uint64_t place = queued != Queue::None ? hardware_queue_.join() : 0;
    queue_.push_back({ticket, std::move(after), std::move(run), hang, queued, place});
    if (!worker_)
        start_worker();
    changed_.notify_all();
    return ticket;
}

void Stream::start_worker() {
    // Signals are blocked: the program's handlers must not run on a worker's stack.
    sigset_t all{};
    sigset_t before{};
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    try {
        const std::lock_guard guard(workers().lock);
        workers().by_stream[this].thread = std::thread([self = shared_from_this()] { self->work_and_leave(); });
        worker_ = true;
    } catch (const std::system_error& error) {
        say(std::string("cannot start a stream's thread: ") + error.what() +
            "; raise the limit of processes (ulimit -u)");
        std::abort();  // an operation has been accepted that can never run
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void Stream::work_and_leave() {
    work();
    Workers& all = workers();
    const std::lock_guard guard(all.lock);
    const auto own = all.by_stream.find(this);
    if (life() == Life::Ended) {
        own->second.finished = true;  // end_idle_workers joins it
        all.changed.notify_all();
        return;
    }
    own->second.thread.detach();
    all.by_stream.erase(own);
}

void Stream::work() {
    while (true) {
        Operation operation;
        {
            std::unique_lock guard(lock_);
            changed_.wait(guard, [&] {
                const bool next = !queue_.empty() && queue_.front().ticket == completed_ + 1;
                return life() == Life::Ended || next || (closing_ && queue_.empty());
            });
            if (life() == Life::Ended || queue_.empty())
                return;
            operation = std::move(queue_.front());
            queue_.pop_front();
        }
        for (const Mark& mark : operation.after)
            mark.stream->wait(mark.ticket);
        if (operation.queued != Queue::None)
            hardware_queue_.await(operation.place);
        if (operation.queued == Queue::UntilStart)
            hardware_queue_.issue();
        if (operation.hang)
            hang_here();
        vgpu_jitter();
        if (operation.run)
            operation.run();
        operation.run = nullptr;  // what the operation held is freed before it counts as complete
        if (operation.queued == Queue::UntilEnd)
            hardware_queue_.issue();
        complete(operation.ticket);
    }
}

void Stream::complete(std::uint64_t ticket) {
    const std::lock_guard guard(lock_);
    completed_.store(ticket, std::memory_order_release);
    changed_.notify_all();
}

void Stream::run_here(std::uint64_t ticket, const std::vector<Mark>& after, const std::function<void()>& run) {
    wait(ticket - 1);
    for (const Mark& mark : after)
        mark.stream->wait(mark.ticket);
    if (run)
        run();
    complete(ticket);
}

void Stream::wait(std::uint64_t ticket) {
    if (done(ticket))
        return;
    std::unique_lock guard(lock_);
    changed_.wait(guard, [&] { return done(ticket); });
}

void Stream::close() {
    const std::lock_guard guard(lock_);
    closing_ = true;
    changed_.notify_all();
}

void Stream::end_idle_workers() {
    Workers& all = workers();
    std::unique_lock guard(all.lock);
    for (const auto& [stream, worker] : all.by_stream) {
        const std::unique_lock stream_guard(stream->lock_, std::try_to_lock);
        stream->changed_.notify_all();
    }
    // Workers that run an operation, which may never end, are left to the end of the process.
    const auto only_busy = [&] {
        return std::all_of(all.by_stream.begin(), all.by_stream.end(),
                           [](const auto& entry) { return entry.second.finished || !entry.first->idle(); });
    };
    all.changed.wait_for(guard, std::chrono::milliseconds(200), only_busy);
    for (auto& [stream, worker] : all.by_stream) {
        if (worker.finished && worker.thread.get_id() != std::this_thread::get_id())
            worker.thread.join();
    }
}

}  // namespace vgpu
