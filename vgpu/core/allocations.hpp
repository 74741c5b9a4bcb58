// The table of all memory that the driver knows in this process, by address. Pointer queries, the checks of copies and
// the simulator's accesses look it up, as many programs do in every MPI call; changes are rare.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <shared_mutex>
#include <vector>

#include "vgpu/core/device_memory.hpp"

namespace vgpu {

class Context;
struct MemoryPool;

enum class MemoryKind : std::uint8_t {
    Device,      // cuMemAlloc
    Pooled,      // cuMemAllocAsync
    Imported,    // cuIpcOpenMemHandle
    Mapped,      // cuMemMap of a device's memory
    Managed,     // cuMemAllocManaged
    Pinned,      // cuMemHostAlloc
    Registered,  // cuMemHostRegister
    MappedHost,  // cuMemMap of the host's memory
};

struct Allocation {
    std::uintptr_t address = 0;
    std::size_t bytes = 0;  // as asked for
    char* alias = nullptr;  // where the simulator sees it
    MemoryKind kind = MemoryKind::Device;
    bool sync_memops = false;  // CU_POINTER_ATTRIBUTE_SYNC_MEMOPS
    bool accessible = true;    // Mapped, MappedHost: cuMemSetAccess has been called
    int device = 0;
    unsigned flags = 0;  // Pinned, Registered, Managed: as the program gave them
    Context* context = nullptr;
    MemoryPool* pool = nullptr;
    std::uint64_t id = 0;            // CU_POINTER_ATTRIBUTE_BUFFER_ID: never used twice
    DeviceBlock block;               // Device, Pooled
    std::uintptr_t reservation = 0;  // Mapped, MappedHost: the reserved range's begin; other ranges: their own
    // How many synchronous operations on it have returned and are not over.
    std::shared_ptr<std::atomic<int>> memops_under_way = std::make_shared<std::atomic<int>>(0);

    std::uintptr_t end() const { return address + bytes; }
    bool contains(std::uintptr_t a) const { return a >= address && a < end(); }
    // Made by cuMemMap.
    bool mapped() const { return kind == MemoryKind::Mapped || kind == MemoryKind::MappedHost; }
    // Returns whether the host may access it.
    bool on_host() const { return kind >= MemoryKind::Managed; }
    // A host pointer in the eyes of the copy functions' documentation: page-locked, not managed.
    bool page_locked() const { return kind >= MemoryKind::Pinned; }
    char* alias_of(std::uintptr_t a) const { return alias + (a - address); }
};

class Allocations {
  public:
    // Gives the entry its id. False, and nothing done, when it overlaps a live one.
    bool add(Allocation allocation);
    std::optional<Allocation> remove(std::uintptr_t begin);  // exactly the begin of an entry
    std::optional<Allocation> find(std::uintptr_t address) const;
    // The entry that holds all of [address, address + bytes). A range over several mappings of one reservation is found
    // too, as the first of them with the bytes of all.
    std::optional<Allocation> find_range(std::uintptr_t address, std::size_t bytes) const;
    // Marks memory as freed in a stream's order: look-ups no longer find it, except those of work that was queued
    // before, until the stream calls forget().
    std::optional<Allocation> leave(std::uintptr_t begin);
    void forget(std::uintptr_t begin);
    // As find_range(), for work that runs on a stream.
    std::optional<Allocation> find_at_work(std::uintptr_t address, std::size_t bytes) const;
    bool overlaps(std::uintptr_t address, std::size_t bytes) const;
    // Applies `change` to the entry that holds `address`; false if there is none.
    template <typename Change>
    bool update(std::uintptr_t address, Change change) {
        const std::unique_lock guard(lock_);
        auto entry = holder(address);
        if (entry == entries_.end())
            return false;
        change(const_cast<Allocation&>(entry->second));
        return true;
    }
    // Copies of all entries of one context.
    std::vector<Allocation> of(const Context* context) const;

  private:
    using Map = std::map<std::uintptr_t, Allocation>;
    Map::const_iterator holder(std::uintptr_t address) const;

    mutable std::shared_mutex lock_;
    Map entries_;
    Map leaving_;
    std::uint64_t next_id_ = 1;
    // The range of all entries there ever were: a pointer outside of it is answered without the lock.
    std::atomic<std::uintptr_t> lowest_{~std::uintptr_t{0}};
    std::atomic<std::uintptr_t> highest_{0};
};

Allocations& allocations();

}  // namespace vgpu
