// NCCL's calls that wait for other ranks, each on a thread of its own: they set up and destroy communicators, and make
// the launches that have to connect ranks first. In NCCL such a call blocks until the others have made theirs, and they
// may need MPI's progress of this process before they do. So nobody waits for such a thread: its end is polled. There
// are none in processes that do not use NCCL, and none while operations run.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "device/device.hpp"

namespace swy::nccl {

class Background {
  public:
    // Runs `work` on a new thread, where `context` is current and signals are blocked: the program's handlers must not
    // run there. `work` returns "" or the error, and must own all that it uses: the thread may outlive whoever has
    // started it. Returns nullptr when no thread can be made.
    static std::shared_ptr<Background> start(device::Context context, std::function<std::string()> work);

    bool done() const { return done_.load(std::memory_order_acquire); }
    const std::string& failure() const { return failure_; }  // once done

  private:
    std::string failure_;
    std::atomic<bool> done_{false};
};

}  // namespace swy::nccl
