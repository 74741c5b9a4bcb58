// The order of operations on a family: each is given a ticket when it is launched, and they run one at a time in the
// order of their tickets, whatever their streams do. After halt() every wait returns and no operation runs.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace vgpu::nccl {

class TicketLock {
  public:
    // Held by a launch from taking the ticket until the operation is on its stream, so that both have one order.
    std::mutex& launching() { return launching_; }
    std::uint64_t next_ticket() const { return next_; }
    void take_ticket() { ++next_; }

    // Waits for the ticket's turn. False when halted: then the operation must not run, and leave() is not called.
    bool enter(std::uint64_t ticket) {
        std::unique_lock guard(lock_);
        changed_.wait(guard, [&] { return halted_ || serving_ == ticket; });
        if (halted_)
            return false;
        running_ = true;
        return true;
    }

    void leave() {
        const std::lock_guard guard(lock_);
        running_ = false;
        ++serving_;
        changed_.notify_all();
    }

    void halt() {
        const std::lock_guard guard(lock_);
        halted_ = true;
        changed_.notify_all();
    }

    // After halt(): waits until the operation that was running has returned.
    void wait_until_idle(std::chrono::seconds at_most) {
        std::unique_lock guard(lock_);
        changed_.wait_for(guard, at_most, [&] { return !running_; });
    }

  private:
    std::mutex launching_;
    std::uint64_t next_ = 0;  // under launching_

    std::mutex lock_;
    std::condition_variable changed_;
    std::uint64_t serving_ = 0;
    bool running_ = false;
    bool halted_ = false;
};

}  // namespace vgpu::nccl
