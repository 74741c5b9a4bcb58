#include "device/mapped.hpp"

#include <chrono>
#include <cstring>
#include <future>
#include <system_error>
#include <thread>
#include <utility>

#include "device/context_pool.hpp"
#include "settings/settings.hpp"

namespace swy::device {
namespace {

// The driver counts how often a context has opened an allocation.
CUresult open_allocation(Context context, const MemoryHandle& handle, std::byte*& data) {
    const Driver* d = driver();
    if (d == nullptr || !can_map())
        return CUDA_ERROR_NOT_SUPPORTED;
    const ContextScope scope(context);
    CUipcMemHandle name{};
    static_assert(sizeof name == sizeof handle);
    std::memcpy(&name, handle.data(), handle.size());
    CUdeviceptr address = 0;
    auto result = static_cast<CUresult>(scope.result());
    if (result == CUDA_SUCCESS)
        result = d->ipc_open(&address, name, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
    if (result == CUDA_SUCCESS)
        data = reinterpret_cast<std::byte*>(address);
    return result;
}

}  // namespace

bool can_map() {
    const Driver* d = driver();
    return d != nullptr && d->ipc_get_handle != nullptr && d->ipc_open != nullptr && d->ipc_close != nullptr &&
           settings::values().peer_pool >= Mappable::kBytes;
}

Result ContextPool::take_mappable(MappableBlock& block) {
    const Driver* d = driver();
    if (d == nullptr || !can_map())
        return CUDA_ERROR_NOT_SUPPORTED;
    {
        const std::scoped_lock lock(mutex_);
        if (!mappable_.empty()) {
            block = mappable_.back();
            mappable_.pop_back();
            return CUDA_SUCCESS;
        }
        if (closed_ || (mappable_made_ + 1) * Mappable::kBytes > settings::values().peer_pool)
            return CUDA_ERROR_OUT_OF_MEMORY;
        ++mappable_made_;
    }
    const ContextScope scope(context_);
    auto result = static_cast<CUresult>(scope.result());
    CUdeviceptr address = 0;
    if (result == CUDA_SUCCESS)
        result = d->memory_allocate(&address, Mappable::kBytes);
    CUipcMemHandle handle{};
    if (result == CUDA_SUCCESS)
        result = d->ipc_get_handle(&handle, address);
    // Memory of which no handle is to be had stays counted, and allocated: freeing it would wait for the device.
    if (result != CUDA_SUCCESS)
        return result;
    static_assert(sizeof handle == sizeof block.handle);
    std::memcpy(block.handle.data(), &handle, sizeof handle);
    block.data = reinterpret_cast<std::byte*>(address);
    return CUDA_SUCCESS;
}

void ContextPool::give_mappable(const MappableBlock& block) noexcept {
    const Driver* d = driver();
    {
        const std::scoped_lock lock(mutex_);
        if (!closed_)
            try {
                mappable_.push_back(block);
                return;
            } catch (...) {  // no memory for the list: the block is freed
            }
    }
    if (d != nullptr && alive(*d))
        free_scratch(*d, {block.data, Mappable::kBytes, false});
}

std::byte* ContextPool::map(const MemoryHandle& handle) {
    {
        const std::scoped_lock lock(mutex_);
        if (const auto found = mappings_.find(handle); found != mappings_.end())
            return found->second;
    }
    std::byte* data = nullptr;
    if (open_allocation(context_, handle, data) != CUDA_SUCCESS)
        return nullptr;
    const std::scoped_lock lock(mutex_);
    return mappings_[handle] = data;
}

bool ContextPool::unmap() noexcept {
    const Driver* d = driver();
    std::unique_lock lock(mutex_);
    const auto mappings = std::exchange(mappings_, {});
    lock.unlock();
    if (mappings.empty() || d == nullptr || !alive(*d))
        return true;
    const ContextScope scope(context_);
    if (scope.result() != CUDA_SUCCESS || !settled())
        return false;
    for (const auto& [handle, address] : mappings)
        d->ipc_close(reinterpret_cast<CUdeviceptr>(address));
    return true;
}

Mappable::Mappable(Mappable&& other) noexcept
    : pool_(std::move(other.pool_)), data_(std::exchange(other.data_, nullptr)), handle_(other.handle_) {}

Mappable& Mappable::operator=(Mappable&& other) noexcept {
    if (this != &other) {
        give_back();
        pool_ = std::move(other.pool_);
        data_ = std::exchange(other.data_, nullptr);
        handle_ = other.handle_;
    }
    return *this;
}

void Mappable::give_back() noexcept {
    if (data_ != nullptr)
        pool_->give_mappable({data_, handle_});
    data_ = nullptr;
    pool_.reset();
}

Result Mappable::acquire(Context context, Mappable& block) {
    Mappable made;
    if (const Result result = ContextPool::of(context, made.pool_); result != CUDA_SUCCESS)
        return result;
    MappableBlock taken;
    if (const Result result = made.pool_->take_mappable(taken); result != CUDA_SUCCESS)
        return result;
    made.data_ = taken.data;
    made.handle_ = taken.handle;
    block = std::move(made);
    return CUDA_SUCCESS;
}

std::byte* map(Context context, const MemoryHandle& handle) {
    std::shared_ptr<ContextPool> pool;
    return ContextPool::of(context, pool) == CUDA_SUCCESS ? pool->map(handle) : nullptr;
}

Result name_allocation(const Location& memory, MemoryHandle& handle) {
    const Driver* d = driver();
    if (d == nullptr || !can_map() || memory.kind != Kind::kDevice || memory.context == nullptr)
        return CUDA_ERROR_NOT_SUPPORTED;
    const ContextScope scope(memory.context);
    CUipcMemHandle name{};
    auto result = static_cast<CUresult>(scope.result());
    if (result == CUDA_SUCCESS)
        result = d->ipc_get_handle(&name, memory.begin);
    std::memcpy(handle.data(), &name, handle.size());
    return result;
}

Mapping::Mapping(Mapping&& other) noexcept
    : pool_(std::move(other.pool_)), data_(std::exchange(other.data_, nullptr)) {}

Mapping& Mapping::operator=(Mapping&& other) noexcept {
    if (this != &other) {
        close();
        pool_ = std::move(other.pool_);
        data_ = std::exchange(other.data_, nullptr);
    }
    return *this;
}

Result Mapping::open(Context context, const MemoryHandle& handle, Mapping& mapping) {
    Mapping made;
    if (const Result result = ContextPool::of(context, made.pool_); result != CUDA_SUCCESS)
        return result;
    const Result result = open_allocation(context, handle, made.data_);
    if (result == CUDA_SUCCESS)
        mapping = std::move(made);
    return result;
}

void Mapping::close() noexcept {
    const Driver* d = driver();
    if (data_ != nullptr && d != nullptr && pool_->alive(*d)) {
        const ContextScope scope(pool_->context());
        if (scope.result() == CUDA_SUCCESS)
            d->ipc_close(reinterpret_cast<CUdeviceptr>(data_));
    }
    data_ = nullptr;
    pool_.reset();
}

void unmap(std::vector<Mapping> mappings, void (*progress)()) {
    if (mappings.empty())
        return;
    constexpr std::chrono::seconds kPatience(1);
    const auto until = std::chrono::steady_clock::now() + kPatience;
    std::promise<void> ended;
    const std::future<void> end = ended.get_future();
    try {
        std::thread([mappings = std::move(mappings), ended = std::move(ended)]() mutable {
            mappings.clear();
            ended.set_value();
        }).detach();
    } catch (const std::system_error&) {
        return;  // no thread: they have ended here
    }
    while (end.wait_for(std::chrono::seconds(0)) != std::future_status::ready &&
           std::chrono::steady_clock::now() < until)
        progress();
}

bool unmap_all() noexcept {
    return ContextPool::unmap_all();
}

void forget_blocks() noexcept {
    ContextPool::forget_blocks();
}

}  // namespace swy::device
