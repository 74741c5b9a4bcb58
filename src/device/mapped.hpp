// Device memory that two processes of a host have in common (CUDA IPC; CUDA programming guide, "Interprocess
// Communication"): one allocates it, the other maps it. Blocks are Switchyard's own, so that they stay as long as they
// are mapped, whatever the program frees; memory of the program's is mapped while MPI forbids to free it.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <vector>

#include "device/device.hpp"

namespace swy::device {

// Names an allocation to other processes of the host (CUipcMemHandle).
using MemoryHandle = std::array<std::byte, 64>;

// Can this process give other processes memory in the context, and map theirs?
bool can_map();

// A block of device memory of this process that others may map. Blocks are all of one size. They come from a pool,
// which is the context's, has as many as settings::Values::peer_pool allows and keeps them until MPI_Finalize.
class Mappable {
  public:
    static constexpr std::size_t kBytes = std::size_t{8} << 20;

    Mappable() = default;
    ~Mappable() { give_back(); }
    Mappable(Mappable&& other) noexcept;
    Mappable& operator=(Mappable&& other) noexcept;

    // Waits for nothing that runs on the device. CUDA_ERROR_OUT_OF_MEMORY where the pool has no more.
    static Result acquire(Context context, Mappable& block);
    std::byte* data() const { return data_; }
    const MemoryHandle& handle() const { return handle_; }
    explicit operator bool() const { return data_ != nullptr; }

  private:
    void give_back() noexcept;

    std::shared_ptr<ContextPool> pool_;
    std::byte* data_ = nullptr;
    MemoryHandle handle_{};
};

// Returns where another process's block is in the address space of this context; nullptr where it cannot be mapped
// there: the GPUs cannot reach each other's memory, or this process's container does not have the other one. A
// block is mapped once, and stays so until unmap_all(), which comes before any process frees its blocks. unmap_all()
// returns false where a device is at work for so long that blocks stay mapped. While another process has blocks of this
// one mapped, they are not freed: forget_blocks() leaves them to the end of the process.
std::byte* map(Context context, const MemoryHandle& handle);
bool unmap_all() noexcept;
void forget_blocks() noexcept;

// Names the allocation in which the program's memory lies. Not for managed memory and that of CUDA's virtual memory
// management and pools: an error then.
Result name_allocation(const Location& memory, MemoryHandle& handle);

// An allocation of the program's in another process, in the address space of a context of this one, as long as this
// lives. Its end waits for all that runs on the device.
class Mapping {
  public:
    Mapping() = default;
    ~Mapping() { close(); }
    Mapping(Mapping&& other) noexcept;
    Mapping& operator=(Mapping&& other) noexcept;

    // Fails as map() does.
    static Result open(Context context, const MemoryHandle& handle, Mapping& mapping);
    std::byte* data() const { return data_; }  // the allocation's beginning

  private:
    void close() noexcept;

    std::shared_ptr<ContextPool> pool_;
    std::byte* data_ = nullptr;
};

// Ends the mappings, calling `progress` meanwhile: what runs on the device may wait for peers, and they for this
// process. Where that takes longer than a second, as beside a kernel of the program's that waits for the host, they end
// when the device is idle.
void unmap(std::vector<Mapping> mappings, void (*progress)());

}  // namespace swy::device
