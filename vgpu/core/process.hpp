// The life of the driver in a process: before cuInit, in use, in a forked child, at the process's end.
#pragma once

#include <memory>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>

#include "vgpu/core/device_table.hpp"

namespace vgpu {

enum class Life { NotInitialized, Running, Forked, Ended };

Life life();
inline bool usable() {
    return life() == Life::Running;
}

// Makes the device table and arms the fork and exit handlers; returns the number of devices. With none the driver stays
// uninitialised, as the real one does. Idempotent, but for complaints: a later call may complain again.
int start(std::vector<std::string>& complaints);

// Only after start.
DeviceTable& devices();

// Set while this thread runs a program's host function, from which no driver call is permitted.
bool& in_host_function();

// Handles given to programs, so that a stale or made-up one is an error and not a crash.
template <typename Object>
class Registry {
  public:
    Object* add(std::shared_ptr<Object> object) {
        Object* const handle = object.get();
        const std::unique_lock guard(lock_);
        objects_.emplace(handle, std::move(object));
        return handle;
    }
    std::shared_ptr<Object> find(const void* handle) const {
        const std::shared_lock guard(lock_);
        const auto found = objects_.find(handle);
        return found == objects_.end() ? nullptr : found->second;
    }
    std::shared_ptr<Object> remove(const void* handle) {
        const std::unique_lock guard(lock_);
        const auto found = objects_.find(handle);
        if (found == objects_.end())
            return nullptr;
        auto object = std::move(found->second);
        objects_.erase(found);
        return object;
    }
    template <typename Predicate>
    void remove_if(Predicate predicate) {
        const std::unique_lock guard(lock_);
        std::erase_if(objects_, [&](const auto& entry) { return predicate(*entry.second); });
    }

  private:
    mutable std::shared_mutex lock_;
    std::unordered_map<const void*, std::shared_ptr<Object>> objects_;
};

}  // namespace vgpu
