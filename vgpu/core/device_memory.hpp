// The memory of one device in one process: its addresses, and how the simulator accesses the bytes behind them.
//
// The address that a program gets is mapped PROT_NONE, so a host access faults as it does on a GPU. The bytes live in a
// memfd, which the simulator sees through a second mapping, and other processes through /proc/<pid>/fd (CUDA IPC).
// Nothing has a name in a file system, so nothing is left behind by a process that dies.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "vgpu/core/memory_ledger.hpp"

namespace vgpu {

// A PROT_NONE range for the program and a readable and writable one for the simulator, of equal size, over the same
// file.
class MappedRange {
  public:
    MappedRange() = default;
    MappedRange(MappedRange&& other) noexcept;
    MappedRange& operator=(MappedRange&& other) noexcept;
    ~MappedRange();

    // Maps `bytes` of `file` from `offset` (both multiples of the page size). False when the system refuses.
    bool map(int file, std::uint64_t offset, std::size_t bytes);
    // Reserves both address ranges, without memory.
    bool reserve(std::size_t bytes, std::size_t alignment);
    void reset();

    std::uintptr_t address() const { return address_; }
    char* alias() const { return alias_; }
    std::size_t bytes() const { return bytes_; }

  private:
    std::uintptr_t address_ = 0;
    char* alias_ = nullptr;
    std::size_t bytes_ = 0;
};

struct DeviceBlock {
    std::uintptr_t address = 0;
    char* alias = nullptr;
    std::size_t bytes = 0;  // as charged: rounded up to the granularity
    std::uint64_t file_offset = 0;
};

class DeviceMemory {
  public:
    static constexpr std::size_t kGranularity = 512;  // as cudaMalloc aligns
    enum class Result { Ok, OutOfMemory };

    DeviceMemory(const std::string& device_name, std::size_t limit) : ledger_(device_name, limit) {}

    Result allocate(std::size_t bytes, DeviceBlock& block);
    // `block` as allocate gave it.
    void free(const DeviceBlock& block);
    MemoryLedger& ledger() { return ledger_; }
    // The memfd behind all blocks.
    int file() const { return file_; }

  private:
    struct Segment {
        MappedRange range;
        std::uint64_t file_offset = 0;
        std::map<std::size_t, std::size_t> holes;  // offset in the segment -> bytes
    };
    bool add_segment(std::size_t bytes);
    bool take(Segment& segment, std::size_t bytes, DeviceBlock& block);

    MemoryLedger ledger_;
    std::mutex lock_;
    int file_ = -1;
    std::uint64_t file_bytes_ = 0;
    std::vector<std::unique_ptr<Segment>> segments_;
};

// True when the address lies where device addresses of this process may lie. Never false for one that does.
bool may_be_device_address(std::uintptr_t address);

}  // namespace vgpu
