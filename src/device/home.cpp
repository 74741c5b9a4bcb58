#include "device/home.hpp"

#include <algorithm>

namespace swy::device {
namespace {

// Not destroyed at exit: the driver may be gone by then, and communicating threads may not.
struct Registry {
    std::mutex mutex;
    std::vector<std::shared_ptr<Home>> homes;
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

// No two allocations of a process have the same id. 0 for what is no allocation.
unsigned long long allocation_id(const Driver& driver, CUdeviceptr address) {
    unsigned long long id = 0;
    if (driver.pointer_get_attribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, address) != CUDA_SUCCESS)
        return 0;
    return id;
}

// In the context, which is current.
Result make_token(const Driver& driver, Context context, Home::Token& token) {
    const BesideCapture beside(driver);
    CUdevice device = 0;
    if (const CUresult result = driver.context_get_device(&device); result != CUDA_SUCCESS)
        return result;
    token.ordinal = device;
    token.primary = is_primary(driver, context, device);
    if (const CUresult result = driver.memory_allocate(&token.canary, kCanaryBytes); result == CUDA_SUCCESS)
        token.id = allocation_id(driver, token.canary);
    else if (result != CUDA_ERROR_OUT_OF_MEMORY)
        return result;  // a context that was reset can be made current all the same
    if (token.id == 0) {
        if (token.canary != 0)
            driver.memory_free(token.canary);
        token.canary = 0;
        token.id = context_id(driver, context);
    }
    return CUDA_SUCCESS;
}

}  // namespace

Result Home::of(Context context, std::shared_ptr<Home>& home) {
    const Driver* d = driver();
    if (d == nullptr)
        return CUDA_ERROR_NOT_INITIALIZED;
    if (context == nullptr)
        return CUDA_ERROR_INVALID_CONTEXT;
    Registry& all = registry();
    const std::scoped_lock lock(all.mutex);
    for (const auto& known : all.homes)
        if (known->context() == context && known->alive(*d)) {
            home = known;
            return CUDA_SUCCESS;
        }
    const ContextScope scope(context);
    if (scope.result() != CUDA_SUCCESS)
        return scope.result();
    Token token;
    if (const Result result = make_token(*d, context, token); result != CUDA_SUCCESS)
        return result;
    home = std::make_shared<Home>(context, token);
    home->load_kernels(*d);
    std::erase_if(all.homes, [d](const auto& known) { return !known->alive(*d); });
    all.homes.push_back(home);
    return CUDA_SUCCESS;
}

void Home::close_all() noexcept {
    Registry& all = registry();
    std::vector<std::shared_ptr<Home>> closing;
    {
        const std::scoped_lock lock(all.mutex);
        closing.swap(all.homes);
    }
    for (const auto& home : closing)
        home->close();
}

Home::Home(Context context, const Token& token) : context_(context), token_(token) {
    // What is given back must find room without an allocation that could fail.
    idle_.reserve(kIdleLanes);
    busy_.reserve(kIdleLanes);
}

// What was in use when the pools were closed has been given back: the canary served to the last.
Home::~Home() {
    close();
    const Driver* d = driver();
    if (token_.canary != 0 && d != nullptr && alive(*d))
        free_scratch(*d, {reinterpret_cast<void*>(token_.canary), kCanaryBytes, false});
}

// Of a destroyed context nothing may be touched, streams and events least of all: the driver follows such handles
// without a check. A reset primary context even comes back under its old handle. An address may always be asked about,
// and the canary's memory went with its context. Without a canary: the state of primary contexts, whose handles stay
// valid, and for others cuCtxGetApiVersion, by which CUDA's own runtime finds out.
bool Home::alive(const Driver& driver) const {
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

void Home::close() noexcept {
    std::unique_lock lock(mutex_);
    closed_ = true;
    std::vector<Handles> lanes = std::move(idle_);
    std::vector<Handles> busy = std::move(busy_);
    std::vector<Block> pinned = std::move(pinned_);
    std::vector<Block> waiting = std::move(waiting_);
    std::vector<Block> scratch = std::move(scratch_);
    lock.unlock();
    const Driver* d = driver();
    const bool live = d != nullptr && alive(*d);
    if (live && busy.empty())  // else one of the kernels may be running still: they end with the context
        unload_kernels(*d);
    for (const auto* list : {&lanes, &busy})
        for (const Handles& handles : *list)
            if (live)
                free_lane(*d, handles);
    for (const auto* list : {&pinned, &waiting})
        for (const Block& block : *list)
            if (live)
                free_pinned(*d, block);
            else
                unmap_block(block);
    for (const Block& block : scratch)
        if (live)
            free_scratch(*d, block);
}

// Lanes.

// Takes back what the lanes that were given back too early have finished. Under the lock.
void Home::reap(const Driver& driver) {
    std::erase_if(busy_, [&](const Handles& handles) {
        const CUresult result = driver.stream_query(handles.stream);
        if (result == CUDA_ERROR_NOT_READY)
            return false;
        if (result == CUDA_SUCCESS && idle_.size() < kIdleLanes)
            idle_.push_back(handles);
        else
            free_lane(driver, handles);
        return true;
    });
    if (busy_.empty())
        for (; !waiting_.empty(); waiting_.pop_back())
            pinned_.push_back(waiting_.back());
}

Result Home::take_lane(Handles& handles) {
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

void Home::give_lane(const Handles& handles) noexcept {
    const Driver* d = driver();
    if (d == nullptr || !alive(*d))
        return;
    const BesideCapture beside(*d);
    const CUresult result = d->stream_query(handles.stream);
    {
        const std::scoped_lock lock(mutex_);
        std::vector<Handles>& list = result == CUDA_ERROR_NOT_READY ? busy_ : idle_;
        if (!closed_ && (result == CUDA_SUCCESS || result == CUDA_ERROR_NOT_READY) && list.size() < kIdleLanes) {
            list.push_back(handles);
            return;
        }
    }
    free_lane(*d, handles);
}

// Returns at once: the driver frees what work under way still needs when that is done.
void Home::free_lane(const Driver& driver, const Handles& handles) const noexcept {
    const BesideCapture beside(driver);
    const ContextScope scope(context_);
    driver.event_destroy(handles.event);
    driver.stream_destroy(handles.stream);
}

}  // namespace swy::device
