// Counts how much of a device's memory each process of the host has, so that VGPU_MEMORY limits all of them together.
//
// The ledger is a small file in /dev/shm per user and device. Each process owns one slot for as long as it holds a lock
// on the slot's byte; the kernel drops that lock when the process dies, however it dies, and the next process that
// looks frees the slot's bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>

namespace vgpu {

class MemoryLedger {
  public:
    MemoryLedger(std::string device_name, std::size_t limit);
    MemoryLedger(const MemoryLedger&) = delete;
    MemoryLedger& operator=(const MemoryLedger&) = delete;

    // False when the device has fewer than `bytes` left.
    bool charge(std::size_t bytes);
    void release(std::size_t bytes);
    // Takes no slot: a process that only asks leaves no file behind, and may fork.
    std::size_t used();
    std::size_t limit() const { return limit_; }
    // Empties this process's slot and removes the file if no other process uses it. For the end of the process.
    void close();

  private:
    struct Slot;
    struct Page;
    bool open();
    bool open_once(const std::string& path);
    std::uint64_t sum(bool drop_the_dead);
    std::uint64_t sum_of_others() const;

    std::string path_;
    std::size_t limit_;
    std::mutex lock_;
    int file_ = -1;
    bool failed_ = false;
    Page* page_ = nullptr;
    std::size_t mine_ = 0;
    std::uint64_t local_ = 0;  // stands in where no ledger can be opened
};

}  // namespace vgpu
