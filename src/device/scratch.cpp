#include "device/scratch.hpp"

#include <algorithm>
#include <bit>
#include <thread>
#include <utility>

#include "device/context_pool.hpp"

namespace swy::device {
namespace {

constexpr std::size_t kSmallestScratch = 1u << 20;
constexpr std::size_t kLarge = 64u << 20;
constexpr std::size_t kKept = 4;  // idle blocks of a context

// Sizes are powers of two: all the smaller blocks that a growing need has left behind are together smaller than the
// largest. Large blocks, on a device that cannot allocate them in stream order, have the size that is needed.
std::size_t capacity_for(std::size_t bytes) {
    return bytes > kLarge ? bytes : std::max(kSmallestScratch, std::bit_ceil(bytes));
}

thread_local Stream* stream_in_order = nullptr;

Result take_in_order(Stream& stream, std::size_t bytes, void*& data) {
    const Driver* d = driver();
    if (d == nullptr || d->memory_allocate_async == nullptr)
        return CUDA_ERROR_NOT_SUPPORTED;
    const ContextScope scope(stream.context());
    if (scope.result() != CUDA_SUCCESS)
        return scope.result();
    CUdeviceptr address = 0;
    const CUresult result = d->memory_allocate_async(&address, bytes == 0 ? 1 : bytes, stream.stream());
    data = reinterpret_cast<void*>(address);
    return result;
}

void give_in_order(Context context, StreamHandle stream, void* data) noexcept {
    const Driver* d = driver();
    if (d == nullptr)
        return;
    const ContextScope scope(context);
    if (scope.result() == CUDA_SUCCESS)
        d->memory_free_async(reinterpret_cast<CUdeviceptr>(data), stream);
}

}  // namespace

ScratchInOrder::ScratchInOrder(Stream& stream) : before_(std::exchange(stream_in_order, &stream)) {}

ScratchInOrder::~ScratchInOrder() {
    stream_in_order = before_;
}

Result ContextPool::take_scratch(std::size_t bytes, Block& block) {
    const Driver* d = driver();
    if (d == nullptr)
        return CUDA_ERROR_NOT_INITIALIZED;
    {
        const std::scoped_lock lock(mutex_);
        const auto fits = std::find_if(scratch_.begin(), scratch_.end(),
                                       [bytes](const Block& idle) { return idle.capacity >= bytes; });
        if (fits != scratch_.end()) {
            block = *fits;
            scratch_.erase(fits);
            return CUDA_SUCCESS;
        }
    }
    const ContextScope scope(context_);
    if (scope.result() != CUDA_SUCCESS)
        return scope.result();
    const std::size_t capacity = capacity_for(bytes);
    CUdeviceptr address = 0;
    if (const CUresult result = d->memory_allocate(&address, capacity); result != CUDA_SUCCESS)
        return result;
    block = {reinterpret_cast<void*>(address), capacity, false};
    return CUDA_SUCCESS;
}

void ContextPool::give_scratch(const Block& block) noexcept {
    const Driver* d = driver();
    if (d == nullptr || !alive(*d))
        return;
    {
        const std::scoped_lock lock(mutex_);
        if (!closed_ && scratch_.size() < kKept)
            try {
                scratch_.push_back(block);
                return;
            } catch (...) {  // no memory for the list: the block is freed
            }
    }
    free_scratch(*d, block);
}

void ContextPool::free_scratch(const Driver& driver, const Block& block) const noexcept {
    const ContextScope scope(context_);
    if (scope.result() == CUDA_SUCCESS)
        driver.memory_free(reinterpret_cast<CUdeviceptr>(block.data));
}

Result Scratch::acquire(Context context, std::size_t bytes, Scratch& scratch) {
    Scratch made;
    if (const Result result = ContextPool::of(context, made.pool_); result != CUDA_SUCCESS)
        return result;
    if (stream_in_order != nullptr && stream_in_order->context() == context) {
        made.stream_ = stream_in_order->stream();
        made.ordered_ = true;
        const Result result = take_in_order(*stream_in_order, bytes, made.data_);
        if (result == CUDA_SUCCESS)
            scratch = std::move(made);
        return result;
    }
    if (bytes > kLarge && made.acquire_large(context, bytes) == CUDA_SUCCESS) {
        scratch = std::move(made);
        return CUDA_SUCCESS;
    }
    Block block;
    if (const Result result = made.pool_->take_scratch(bytes, block); result != CUDA_SUCCESS)
        return result;
    made.data_ = block.data;
    made.capacity_ = block.capacity;
    scratch = std::move(made);
    return CUDA_SUCCESS;
}

// Other streams may use the memory once its own has come to the allocation, which it does at once: nothing else is
// there.
Result Scratch::acquire_large(Context context, std::size_t bytes) {
    Stream own;
    void* data = nullptr;
    if (const Result result = Stream::acquire(context, own); result != CUDA_SUCCESS)
        return result;
    if (const Result result = take_in_order(own, bytes, data); result != CUDA_SUCCESS)
        return result;
    bool done = false;
    Result result = own.record();
    while (result == CUDA_SUCCESS && !done) {
        result = own.query(done);
        std::this_thread::yield();
    }
    if (result != CUDA_SUCCESS) {
        give_in_order(context, own.stream(), data);
        return result;
    }
    data_ = data;
    stream_ = own.stream();
    own_ = std::move(own);
    ordered_ = true;
    return CUDA_SUCCESS;
}

Scratch::~Scratch() {
    give_back();
}

Scratch::Scratch(Scratch&& other) noexcept
    : pool_(std::move(other.pool_)),
      data_(std::exchange(other.data_, nullptr)),
      capacity_(std::exchange(other.capacity_, 0)),
      ordered_(std::exchange(other.ordered_, false)),
      stream_(std::exchange(other.stream_, nullptr)),
      own_(std::move(other.own_)) {}

Scratch& Scratch::operator=(Scratch&& other) noexcept {
    if (this != &other) {
        give_back();
        pool_ = std::move(other.pool_);
        data_ = std::exchange(other.data_, nullptr);
        capacity_ = std::exchange(other.capacity_, 0);
        ordered_ = std::exchange(other.ordered_, false);
        stream_ = std::exchange(other.stream_, nullptr);
        own_ = std::move(other.own_);
    }
    return *this;
}

void Scratch::give_back() noexcept {
    if (data_ != nullptr && ordered_)
        give_in_order(pool_->context(), stream_, data_);
    else if (data_ != nullptr)
        pool_->give_scratch({data_, capacity_, false});
    own_ = {};
    pool_.reset();
    data_ = nullptr;
}

}  // namespace swy::device
