// The pool of one CUDA context: streams, pinned memory and scratch memory are handed out and taken back here. Only
// src/device uses this. A pool outlives its context: what a destroyed or reset context took with it is forgotten,
// without a call that names it (the driver does not check such handles). Each pool has one lock, which is never held
// while a call may block.
#pragma once

#include <array>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "device/driver.hpp"
#include "device/mapped.hpp"

namespace swy::device {

struct Handles {
    StreamHandle stream = nullptr;
    CUevent_st* event = nullptr;
};

struct Block {
    void* data = nullptr;
    std::size_t capacity = 0;
    bool page_locked = false;  // always false for scratch memory
};

struct MappableBlock {
    std::byte* data = nullptr;
    MemoryHandle handle{};
};

// Maps host memory that is not page-locked, as zero pages from the system; `data` is null when there is none.
Block map_block(std::size_t bytes);
void unmap_block(const Block& block) noexcept;

class ContextPool {
  public:
    // Finds the pool of a live context, or makes it.
    static Result of(Context context, std::shared_ptr<ContextPool>& pool);
    // Empties all pools and forgets them. What is still in use is freed when it is given back.
    static void close_all() noexcept;
    static bool unmap_all() noexcept;      // in all pools, as unmap_all() of mapped.hpp
    static void forget_blocks() noexcept;  // in all pools

    // Identifies a context, so that a later one under the same handle is told from it.
    struct Token {
        CUdeviceptr canary = 0;     // a small allocation in the context; 0 where there was no memory for one
        unsigned long long id = 0;  // id of the canary; without a canary that of the context, 0 before CUDA 12.0
        int ordinal = 0;
        bool primary = false;
    };

    ContextPool(Context context, const Token& token);
    ~ContextPool();
    ContextPool(const ContextPool&) = delete;
    ContextPool& operator=(const ContextPool&) = delete;

    Context context() const { return context_; }
    bool alive(const Driver& driver) const;  // asks the driver once within a CallScope

    // To be called once, with the context current, before anything else is made in the pool.
    void load_kernels(const Driver& driver);
    bool has_kernels() const { return kernels_loaded_; }
    Result launch(Kernel kernel, std::uint64_t threads, void* parameter, StreamHandle stream) const;

    Result take_stream(Handles& handles);
    void give_stream(const Handles& handles, bool done) noexcept;  // done: nothing is under way on it

    Result take_pinned(std::size_t bytes, Block& block);  // the block may be pageable
    void give_pinned(const Block& block) noexcept;

    Result take_scratch(std::size_t bytes, Block& block);
    void give_scratch(const Block& block) noexcept;

    // mapped.hpp
    Result take_mappable(MappableBlock& block);
    void give_mappable(const MappableBlock& block) noexcept;
    std::byte* map(const MemoryHandle& handle);

  private:
    bool exists(const Driver& driver) const;
    void close() noexcept;
    bool unmap() noexcept;
    bool settled() noexcept;
    void unload_kernels(const Driver& driver) noexcept;
    void reap(const Driver& driver);
    bool reserve_pinned(std::size_t bytes, std::vector<Block>& evicted);
    void lock_pages(Block& block);
    void place_near(const Block& block);
    void free_stream(const Driver& driver, const Handles& handles) const noexcept;
    void free_pinned(const Driver& driver, const Block& block) const noexcept;
    void free_scratch(const Driver& driver, const Block& block) const noexcept;

    const Context context_;
    const Token token_;

    CUmodule module_ = nullptr;
    std::array<CUfunction, kKernels> functions_{};
    bool kernels_loaded_ = false;

    std::once_flag nodes_asked_;
    std::vector<unsigned> nodes_;  // NUMA nodes next to the device; empty where that makes no difference

    std::mutex mutex_;
    bool closed_ = false;
    bool busy_at_end_ = false;  // work was still under way on the device in MPI_Finalize
    std::vector<Handles> idle_;
    std::vector<Handles> busy_;                    // given back with work under way
    std::vector<Block> pinned_;                    // idle; the one idle for longest comes first
    std::vector<Block> waiting_;                   // pinned memory that work on a busy stream may still touch
    std::vector<Block> scratch_;                   // idle
    std::size_t locked_bytes_ = 0;                 // page-locked, idle and in use
    std::vector<MappableBlock> mappable_;          // idle
    std::size_t mappable_made_ = 0;                // idle and in use
    std::map<MemoryHandle, std::byte*> mappings_;  // of other processes' blocks
};

}  // namespace swy::device
