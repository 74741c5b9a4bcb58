#include "vgpu/core/allocations.hpp"

#include <algorithm>
#include <iterator>
#include <mutex>

#include "vgpu/core/process.hpp"
#include "vgpu/private.h"

namespace vgpu {

Allocations::Map::const_iterator Allocations::holder(std::uintptr_t address) const {
    auto after = entries_.upper_bound(address);
    if (after == entries_.begin())
        return entries_.end();
    const auto entry = std::prev(after);
    return entry->second.contains(address) ? entry : entries_.end();
}

bool Allocations::add(Allocation allocation) {
    if (allocation.reservation == 0)
        allocation.reservation = allocation.address;
    const std::unique_lock guard(lock_);
    const auto next = entries_.lower_bound(allocation.address);
    if (next != entries_.end() && next->first < allocation.end())
        return false;
    if (next != entries_.begin() && std::prev(next)->second.end() > allocation.address)
        return false;
    allocation.id = next_id_++;
    lowest_ = std::min(lowest_.load(), allocation.address);
    highest_ = std::max(highest_.load(), allocation.end());
    entries_.emplace_hint(next, allocation.address, allocation);
    return true;
}

std::optional<Allocation> Allocations::remove(std::uintptr_t begin) {
    const std::unique_lock guard(lock_);
    const auto entry = entries_.find(begin);
    if (entry == entries_.end())
        return std::nullopt;
    const Allocation allocation = entry->second;
    entries_.erase(entry);
    return allocation;
}

std::optional<Allocation> Allocations::leave(std::uintptr_t begin) {
    const std::unique_lock guard(lock_);
    const auto entry = entries_.find(begin);
    if (entry == entries_.end())
        return std::nullopt;
    const Allocation allocation = entry->second;
    leaving_.insert(entries_.extract(entry));
    return allocation;
}

void Allocations::forget(std::uintptr_t begin) {
    const std::unique_lock guard(lock_);
    leaving_.erase(begin);
}

std::optional<Allocation> Allocations::find_at_work(std::uintptr_t address, std::size_t bytes) const {
    if (auto found = find_range(address, bytes))
        return found;
    const std::shared_lock guard(lock_);
    const auto after = leaving_.upper_bound(address);
    if (after == leaving_.begin())
        return std::nullopt;
    const Allocation& last = std::prev(after)->second;
    return last.contains(address) && bytes <= last.end() - address ? std::optional(last) : std::nullopt;
}

std::optional<Allocation> Allocations::find(std::uintptr_t address) const {
    if (address < lowest_.load(std::memory_order_acquire) || address >= highest_.load(std::memory_order_acquire))
        return std::nullopt;
    const std::shared_lock guard(lock_);
    const auto entry = holder(address);
    if (entry == entries_.end())
        return std::nullopt;
    return entry->second;
}

std::optional<Allocation> Allocations::find_range(std::uintptr_t address, std::size_t bytes) const {
    if (address < lowest_.load(std::memory_order_acquire) || address >= highest_.load(std::memory_order_acquire) ||
        bytes > ~std::uintptr_t{0} - address)
        return std::nullopt;
    const std::shared_lock guard(lock_);
    const auto entry = holder(address);
    if (entry == entries_.end())
        return std::nullopt;
    Allocation found = entry->second;
    for (auto next = std::next(entry); found.end() < address + bytes; ++next) {
        if (next == entries_.end() || next->first != found.end() || !next->second.mapped() ||
            next->second.reservation != found.reservation || !next->second.accessible)
            return std::nullopt;
        found.bytes += next->second.bytes;
    }
    return found;
}

bool Allocations::overlaps(std::uintptr_t address, std::size_t bytes) const {
    const std::shared_lock guard(lock_);
    const auto next = entries_.lower_bound(address);
    if (next != entries_.end() && next->first < address + bytes)
        return true;
    return next != entries_.begin() && std::prev(next)->second.end() > address;
}

std::vector<Allocation> Allocations::of(const Context* context) const {
    std::vector<Allocation> found;
    const std::shared_lock guard(lock_);
    for (const auto& [address, allocation] : entries_)
        if (allocation.context == context)
            found.push_back(allocation);
    return found;
}

Allocations& allocations() {
    static auto& all = *new Allocations;
    return all;
}

}  // namespace vgpu

extern "C" void* vgpu_alias(unsigned long long address, size_t bytes) {
    if (!vgpu::usable())
        return nullptr;
    const auto found = vgpu::allocations().find_at_work(address, bytes);
    return found && found->accessible ? found->alias_of(address) : nullptr;
}
