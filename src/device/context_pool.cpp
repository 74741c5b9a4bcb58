#include "device/context_pool.hpp"

#include <algorithm>
#include <chrono>
#include <exception>
#include <future>
#include <thread>
#include <utility>

namespace swy::device {
namespace {

// All pools. Not destroyed at exit: the driver may be unloaded by then, and threads that communicate may still run.
struct Registry {
    std::mutex mutex;
    std::vector<std::shared_ptr<ContextPool>> pools;
};
Registry& registry() {
    static auto* the_registry = new Registry;
    return *the_registry;
}

constexpr std::size_t kCanaryBytes = 256;

unsigned long long context_id(const Driver& driver, Context context) {
    unsigned long long id = 0;
    if (driver.context_get_id == nullptr || driver.context_get_id(context, &id) != CUDA_SUCCESS)
        return 0;
    return id;
}

// The id of an allocation, which no two allocations of a process share; 0 where the address is no allocation.
unsigned long long allocation_id(const Driver& driver, CUdeviceptr address) {
    unsigned long long id = 0;
    if (driver.pointer_get_attribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, address) != CUDA_SUCCESS)
        return 0;
    return id;
}

// Makes the token of the current context.
Result make_token(const Driver& driver, Context context, ContextPool::Token& token) {
    const BesideCapture beside(driver);
    CUdevice device = 0;
    if (const CUresult result = driver.context_get_device(&device); result != CUDA_SUCCESS)
        return result;
    token.ordinal = device;
    token.primary = is_primary(driver, context, device);
    if (const CUresult result = driver.memory_allocate(&token.canary, kCanaryBytes); result == CUDA_SUCCESS)
        token.id = allocation_id(driver, token.canary);
    else if (result != CUDA_ERROR_OUT_OF_MEMORY)
        return result;  // a context that was reset can still be made current all the same
    if (token.id == 0) {
        if (token.canary != 0)
            driver.memory_free(token.canary);
        token.canary = 0;
        token.id = context_id(driver, context);
    }
    return CUDA_SUCCESS;
}

}  // namespace

Result ContextPool::of(Context context, std::shared_ptr<ContextPool>& pool) {
    const Driver* d = driver();
    if (d == nullptr)
        return CUDA_ERROR_NOT_INITIALIZED;
    if (context == nullptr)
        return CUDA_ERROR_INVALID_CONTEXT;
    Registry& all = registry();
    const std::scoped_lock lock(all.mutex);
    for (const auto& known : all.pools)
        if (known->context() == context && known->alive(*d)) {
            pool = known;
            return CUDA_SUCCESS;
        }
    const ContextScope scope(context);
    if (scope.result() != CUDA_SUCCESS)
        return scope.result();
    Token token;
    if (const Result result = make_token(*d, context, token); result != CUDA_SUCCESS)
        return result;
    pool = std::make_shared<ContextPool>(context, token);
    pool->load_kernels(*d);
    std::erase_if(all.pools, [d](const auto& known) { return !known->alive(*d); });
    all.pools.push_back(pool);
    return CUDA_SUCCESS;
}

void ContextPool::close_all() noexcept {
    Registry& all = registry();
    std::vector<std::shared_ptr<ContextPool>> closing;
    {
        const std::scoped_lock lock(all.mutex);
        closing.swap(all.pools);
    }
    for (const auto& pool : closing)
        pool->close();
}

bool ContextPool::unmap_all() noexcept {
    Registry& all = registry();
    const std::scoped_lock lock(all.mutex);
    bool unmapped = true;
    for (const auto& pool : all.pools)
        unmapped &= pool->unmap();
    return unmapped;
}

void ContextPool::forget_blocks() noexcept {
    Registry& all = registry();
    const std::scoped_lock lock(all.mutex);
    for (const auto& pool : all.pools) {
        const std::scoped_lock lock_of_pool(pool->mutex_);
        pool->mappable_.clear();
    }
}

// Has the device done all its work? What the driver does to free memory, unmap it or unload kernels waits for all of
// it, a kernel of the program's that runs until the host says so after MPI_Finalize included. So none of that is done
// where it would wait for longer than kPatience: the driver gives all back when the context ends. Asking waits too,
// and does so on a thread of its own.
bool ContextPool::settled() noexcept {
    constexpr std::chrono::seconds kPatience(1);
    const Driver* d = driver();
    if (busy_at_end_ || d == nullptr)
        return false;
    busy_at_end_ = true;
    try {
        std::promise<bool> asked;
        std::future<bool> idle = asked.get_future();
        std::thread([d, context = context_, asked = std::move(asked)]() mutable {
            const auto synchronize = [&] {
                const ContextScope scope(context);
                return scope.result() != CUDA_SUCCESS ? scope.result() : d->context_synchronize();
            };
            asked.set_value(synchronize() == CUDA_SUCCESS);
        }).detach();
        busy_at_end_ = idle.wait_for(kPatience) != std::future_status::ready || !idle.get();
    } catch (const std::exception&) {  // no thread, or no memory
    }
    return !busy_at_end_;
}

ContextPool::ContextPool(Context context, const Token& token) : context_(context), token_(token) {
    // Returning to the pool must not need an allocation that could fail.
    idle_.reserve(kIdleStreams);
    busy_.reserve(kIdleStreams);
}

// What was in use when the pools were closed has been given back: until now the canary was needed.
ContextPool::~ContextPool() {
    close();
    const Driver* d = driver();
    if (token_.canary != 0 && d != nullptr && !busy_at_end_ && alive(*d))
        free_scratch(*d, {reinterpret_cast<void*>(token_.canary), kCanaryBytes, false});
}

// Tells whether the context still exists. Nothing of a destroyed context may be touched, streams and events least of
// all: the driver follows such handles without a check. A reset primary context even comes back under its old handle.
// But any address may be passed to the driver's queries, and the canary's memory was freed with its context. Without a
// canary this uses the state of primary contexts, whose handles stay valid, and for others cuCtxGetApiVersion, by which
// CUDA's own runtime detects it.
bool ContextPool::alive(const Driver& driver) const {
    if (calls_in_scope.context != nullptr) {
        if (calls_in_scope.alive == this)
            return true;
        if (!exists(driver))
            return false;
        calls_in_scope.alive = this;
        return true;
    }
    return exists(driver);
}

bool ContextPool::exists(const Driver& driver) const {
    if (token_.canary != 0)
        return allocation_id(driver, token_.canary) == token_.id;
    if (token_.primary) {
        unsigned flags = 0;
        int active = 0;
        CUdevice device = 0;
        if (driver.device_get(&device, token_.ordinal) != CUDA_SUCCESS ||
            driver.primary_get_state(device, &flags, &active) != CUDA_SUCCESS || active == 0)
            return false;
    } else {
        unsigned version = 0;
        if (driver.context_get_api_version(context_, &version) != CUDA_SUCCESS)
            return false;
    }
    return token_.id == 0 || context_id(driver, context_) == token_.id;
}

void ContextPool::close() noexcept {
    const Driver* d = driver();
    const bool live = d != nullptr && alive(*d);
    std::unique_lock lock(mutex_);
    if (live)
        reap(*d);
    closed_ = true;
    std::vector<Handles> streams = std::move(idle_);
    std::vector<Handles> busy = std::move(busy_);
    std::vector<Block> pinned = std::move(pinned_);
    std::vector<Block> waiting = std::move(waiting_);
    std::vector<Block> scratch = std::move(scratch_);
    for (const MappableBlock& block : std::exchange(mappable_, {}))
        scratch.push_back({block.data, Mappable::kBytes, false});
    busy_at_end_ |= live && !busy.empty();
    lock.unlock();
    unmap();
    const bool frees = live && settled();
    if (frees)
        unload_kernels(*d);
    for (const auto* list : {&streams, &busy})
        for (const Handles& handles : *list)
            if (live)
                free_stream(*d, handles);
    if (live && !frees)
        return;
    for (const auto* list : {&pinned, &waiting})
        for (const Block& block : *list)
            if (frees)
                free_pinned(*d, block);
            else
                unmap_block(block);
    for (const Block& block : scratch)
        if (frees)
            free_scratch(*d, block);
}

// Streams.

// Reuses the streams that were given back with work under way and have finished it, and the pinned memory that waits
// for them. Called under the lock.
void ContextPool::reap(const Driver& driver) {
    std::erase_if(busy_, [&](const Handles& handles) {
        const CUresult result = driver.stream_query(handles.stream);
        if (result == CUDA_ERROR_NOT_READY)
            return false;
        if (result == CUDA_SUCCESS && idle_.size() < kIdleStreams)
            idle_.push_back(handles);
        else
            free_stream(driver, handles);
        return true;
    });
    if (busy_.empty())
        for (; !waiting_.empty(); waiting_.pop_back())
            pinned_.push_back(waiting_.back());
}

Result ContextPool::take_stream(Handles& handles) {
    const Driver* d = driver();
    if (d == nullptr)
        return CUDA_ERROR_NOT_INITIALIZED;
    const BesideCapture beside(*d);
    {
        const std::scoped_lock lock(mutex_);
        if (!busy_.empty())
            reap(*d);
        if (!idle_.empty()) {
            handles = idle_.back();
            idle_.pop_back();
            return CUDA_SUCCESS;
        }
    }
    const ContextScope scope(context_);
    if (scope.result() != CUDA_SUCCESS)
        return scope.result();
    Handles made;
    if (const CUresult result = d->stream_create(&made.stream, CU_STREAM_NON_BLOCKING); result != CUDA_SUCCESS)
        return result;
    if (const CUresult result = d->event_create(&made.event, CU_EVENT_DISABLE_TIMING); result != CUDA_SUCCESS) {
        d->stream_destroy(made.stream);
        return result;
    }
    handles = made;
    return CUDA_SUCCESS;
}

void ContextPool::give_stream(const Handles& handles, bool done) noexcept {
    const Driver* d = driver();
    if (d == nullptr)
        return;
    if (done) {
        const std::scoped_lock lock(mutex_);
        if (!closed_ && idle_.size() < kIdleStreams) {
            idle_.push_back(handles);  // if the context is gone, it is forgotten with the pool
            return;
        }
    }
    if (!alive(*d))
        return;
    const BesideCapture beside(*d);
    const CUresult result = d->stream_query(handles.stream);
    {
        const std::scoped_lock lock(mutex_);
        std::vector<Handles>& list = result == CUDA_ERROR_NOT_READY ? busy_ : idle_;
        if (!closed_ && (result == CUDA_SUCCESS || result == CUDA_ERROR_NOT_READY) && list.size() < kIdleStreams) {
            list.push_back(handles);
            return;
        }
    }
    free_stream(*d, handles);
}

// Returns at once: the driver frees the resources that unfinished work needs when that work is done.
void ContextPool::free_stream(const Driver& driver, const Handles& handles) const noexcept {
    const ContextScope scope(context_);
    driver.event_destroy(handles.event);
    driver.stream_destroy(handles.stream);
}

}  // namespace swy::device
