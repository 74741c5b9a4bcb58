// Memory for staging. It is the system's memory, page-locked by cuMemHostRegister, not the driver's (cuMemHostAlloc):
// when the program destroys its context it becomes pageable, and stays.
#include <sys/mman.h>

#include <bit>
#include <utility>

#include "device/context_pool.hpp"
#include "device/listing.hpp"
#include "settings/settings.hpp"
#include "topology/memory.hpp"

namespace swy::device {
namespace {

constexpr std::size_t kSmallestBlock = 16u << 10;
constexpr std::size_t kMebi = 1u << 20;

// Sizes are powers of two up to 1 MiB, then whole MiB: few sizes, so that blocks are reused, and little waste.
std::size_t block_bytes(std::size_t bytes) {
    if (bytes <= kSmallestBlock)
        return kSmallestBlock;
    if (bytes <= kMebi)
        return std::bit_ceil(bytes);
    return bytes > SIZE_MAX - kMebi ? bytes : (bytes + kMebi - 1) / kMebi * kMebi;
}

}  // namespace

Block map_block(std::size_t bytes) {
    void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED)
        return {};
    madvise(data, bytes, MADV_HUGEPAGE);  // fewer pages to touch and to lock, where the system has larger ones
    return {data, bytes, false};
}

void unmap_block(const Block& block) noexcept {
    munmap(block.data, block.capacity);
}

// Makes room for `bytes` more of page-locked memory, by evicting idle blocks where that helps. Called under the lock.
bool ContextPool::reserve_pinned(std::size_t bytes, std::vector<Block>& evicted) {
    const std::size_t limit = settings::values().pinned_pool;
    std::size_t idle = 0;
    for (const Block& block : pinned_)
        idle += block.capacity;
    if (closed_ || bytes > limit || locked_bytes_ - idle > limit - bytes)
        return false;
    while (locked_bytes_ > limit - bytes) {
        locked_bytes_ -= pinned_.front().capacity;
        evicted.push_back(pinned_.front());
        pinned_.erase(pinned_.begin());
    }
    locked_bytes_ += bytes;
    return true;
}

// Binds the block to the NUMA nodes near the device. Called before anything touches the pages, as locking does: that is
// when the system decides where they are.
void ContextPool::place_near(const Block& block) {
    std::call_once(nodes_asked_, [this] { nodes_ = topology::nodes_near_device(pci_address(token_.ordinal)); });
    topology::prefer_nodes(block.data, block.capacity, nodes_);
}

void ContextPool::lock_pages(Block& block) {
    const Driver* d = driver();
    CUresult result = CUDA_ERROR_NOT_INITIALIZED;
    if (d != nullptr) {
        const ContextScope scope(context_);
        result = scope.result() != CUDA_SUCCESS
                     ? static_cast<CUresult>(scope.result())
                     : d->host_register(block.data, block.capacity,
                                        CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP);
    }
    block.page_locked = result == CUDA_SUCCESS;
    if (!block.page_locked) {
        const std::scoped_lock lock(mutex_);
        locked_bytes_ -= block.capacity;
    }
}

Result ContextPool::take_pinned(std::size_t bytes, Block& block) {
    const std::size_t wanted = block_bytes(bytes);
    std::vector<Block> evicted;
    bool reserved = false;
    const Driver* d = driver();
    {
        const std::scoped_lock lock(mutex_);
        if (d != nullptr && !busy_.empty() && !waiting_.empty()) {
            const BesideCapture beside(*d);
            reap(*d);
        }
        auto best = pinned_.end();
        for (auto it = pinned_.begin(); it != pinned_.end(); ++it)
            if (it->capacity >= wanted && it->capacity / 2 <= wanted &&
                (best == pinned_.end() || it->capacity < best->capacity))
                best = it;
        if (best != pinned_.end()) {
            block = *best;
            pinned_.erase(best);
            return CUDA_SUCCESS;
        }
        reserved = reserve_pinned(wanted, evicted);
    }
    for (const Block& old : evicted)
        if (d != nullptr)
            free_pinned(*d, old);
    block = map_block(wanted);
    if (block.data == nullptr) {
        const std::scoped_lock lock(mutex_);
        locked_bytes_ -= reserved ? wanted : 0;
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    place_near(block);
    if (reserved)
        lock_pages(block);
    return CUDA_SUCCESS;
}

void ContextPool::give_pinned(const Block& block) noexcept {
    if (!block.page_locked) {
        unmap_block(block);
        return;
    }
    {
        // The pool of a context that has gone is not found any more, and frees its memory without a call that names it.
        const std::scoped_lock lock(mutex_);
        if (!closed_)
            try {
                (busy_.empty() ? pinned_ : waiting_).push_back(block);
                return;
            } catch (...) {  // no memory for the list: the block is freed
            }
        locked_bytes_ -= block.capacity;
    }
    if (const Driver* d = driver(); d != nullptr && alive(*d))
        free_pinned(*d, block);
    else
        unmap_block(block);
}

void ContextPool::free_pinned(const Driver& driver, const Block& block) const noexcept {
    CUresult result;
    {
        const ContextScope scope(context_);
        result = driver.host_unregister(block.data);
    }
    // Memory that the driver still believes to be locked must keep its address: a later mapping there would be copied
    // from and to the old pages.
    if (result == CUDA_SUCCESS || result == CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED ||
        result == CUDA_ERROR_CONTEXT_IS_DESTROYED || result == CUDA_ERROR_DEINITIALIZED)
        unmap_block(block);
}

Result Pinned::acquire(Context context, std::size_t bytes, Pinned& pinned) {
    Pinned made;
    Block block;
    Result result = ContextPool::of(context, made.pool_);
    if (result == CUDA_SUCCESS) {
        result = made.pool_->take_pinned(bytes, block);
    } else {
        block = map_block(block_bytes(bytes));
        result = block.data != nullptr ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (result != CUDA_SUCCESS)
        return result;
    made.data_ = block.data;
    made.size_ = bytes;
    made.capacity_ = block.capacity;
    made.page_locked_ = block.page_locked;
    pinned = std::move(made);
    return CUDA_SUCCESS;
}

Pinned::~Pinned() {
    give_back();
}

Pinned::Pinned(Pinned&& other) noexcept
    : pool_(std::move(other.pool_)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      capacity_(std::exchange(other.capacity_, 0)),
      page_locked_(std::exchange(other.page_locked_, false)) {}

Pinned& Pinned::operator=(Pinned&& other) noexcept {
    if (this != &other) {
        give_back();
        pool_ = std::move(other.pool_);
        data_ = std::exchange(other.data_, nullptr);
        size_ = std::exchange(other.size_, 0);
        capacity_ = std::exchange(other.capacity_, 0);
        page_locked_ = std::exchange(other.page_locked_, false);
    }
    return *this;
}

void Pinned::give_back() noexcept {
    if (data_ == nullptr)
        return;
    const Block block{data_, capacity_, page_locked_};
    if (pool_ != nullptr)
        pool_->give_pinned(block);
    else
        unmap_block(block);
    pool_.reset();
    data_ = nullptr;
}

}  // namespace swy::device
