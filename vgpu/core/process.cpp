#include "vgpu/core/process.hpp"

#include <atomic>
#include <cstdlib>

#include <pthread.h>

#include "vgpu/core/stream.hpp"

namespace vgpu {
namespace {

std::atomic<Life> g_life{Life::NotInitialized};
DeviceTable* g_devices = nullptr;

void in_child() {
    if (g_life == Life::Running)
        g_life = Life::Forked;
}

// Runs at exit. Nothing is destroyed: threads of the program, or of its libraries, may still be in the driver, and work
// may be pending for ever. Idle workers are joined so that a leak checker does not report them.
void at_end() {
    if (g_life != Life::Running)
        return;
    g_life = Life::Ended;
    Stream::end_idle_workers();
    for (int i = 0; i < g_devices->count(); ++i)
        (*g_devices)[i].memory->ledger().close();
}

}  // namespace

Life life() {
    return g_life.load(std::memory_order_acquire);
}

int start(std::vector<std::string>& complaints) {
    static auto& lock = *new std::mutex;
    const std::lock_guard guard(lock);
    if (g_devices == nullptr) {
        auto table = std::make_unique<DeviceTable>(complaints);
        if (!complaints.empty())
            return 0;
        g_devices = table.release();
        if (g_devices->count() > 0) {
            pthread_atfork(nullptr, nullptr, in_child);
            std::atexit(at_end);
            g_life = Life::Running;
        }
    }
    return g_devices->count();
}

DeviceTable& devices() {
    return *g_devices;
}

bool& in_host_function() {
    thread_local bool inside = false;
    return inside;
}

}  // namespace vgpu
