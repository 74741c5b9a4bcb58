// The CUDA driver as the rest of Switchyard sees it: where memory lives, copies, streams, events, pinned memory.
// The only folder that includes cuda.h. Everything here works in a process without a driver, and no function makes a
// context on a device on which the program has none. The caller's current context is as before when a function returns.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "device/host_ranges.hpp"
#include "device/kernels.hpp"
#include "report/trace.hpp"

struct CUctx_st;
struct CUstream_st;
struct CUevent_st;

namespace swy::device {

using Context = CUctx_st*;
using StreamHandle = CUstream_st*;  // is NCCL's cudaStream_t

// State of the driver in this process.

enum class DriverState : std::uint8_t {
    kNotLoaded,  // nobody has loaded libcuda.so.1 into this process: no device memory can exist here
    kLoaded,     // loaded by the program (or by us, on request), usable
    kUnusable,   // loaded, but entry points are missing or cuInit failed: driver_problem() says what
};
DriverState driver_state();

// Binds the driver (libcuda.so.1) that the program has loaded into this process, if it has; true when there is a usable
// one. Called by the gate when libraries were loaded; cheap, takes no lock of ours. Loads nothing and never calls
// cuInit.
bool adopt_loaded_driver();

// Loads libcuda.so.1 when nobody has (for `switchyard info` and diagnosis only) and initialises it, which nothing else
// here does. Returns the state. A driver without a device is kUnusable, driver_problem() says so.
DriverState load_driver();
std::string driver_problem();  // "" or what is wrong and what to do
std::string driver_text();     // "CUDA 13.0, /path/of/libcuda.so.1"; "" without a usable driver

// Whether this node seems to have a GPU driver, without loading any CUDA library: libcuda.so.1 already loaded, or on
// LD_LIBRARY_PATH (virtual GPUs), or a driver's device files present. A hint that is only used to decide whether the
// job agrees on routes.
bool node_has_driver();

// Location.

enum class Kind : std::uint8_t { kHost, kPinned, kManaged, kDevice };

struct Location {
    Kind kind = Kind::kHost;
    int ordinal = -1;           // device ordinal in this process, for kManaged and kDevice
    Context context = nullptr;  // the context the memory belongs to; the device's primary one where the driver names
                                // none (VMM, pools)
    bool primary = true;        // context is the device's primary one (NCCL needs that)
    bool any_device = false;   // managed memory at home on the host: the ordinal is that of the nearest device on which
                               // the program has a context, but any of these will do
    std::uintptr_t begin = 0;  // the allocation, [begin, end), where the driver knows it
    std::uintptr_t end = 0;

    // Must MPI be kept from this memory? Managed memory counts: it is treated as device memory throughout.
    bool on_device() const { return kind >= Kind::kManaged; }
};

// The quick question for host buffers: none to the driver where memory is surely the host's, else one call into it (a
// second one for pinned memory). False without driver, before cuInit, for NULL, host, pinned and freed memory. Where
// the driver answers no more (the program's context died of an error), memory counts as the host's if and only if the
// host can read it.
inline bool on_device(const void* address);

// The full answer. `context` is null where the memory has none and the program has no context on its device. Interior
// pointers and one byte past a range's start are inside it; one past the end belongs to whatever lies there.
Location locate(const void* address);

// How on_device() asks, without cuda.h: cuPointerGetAttribute while a driver is usable, else null.
using PointerQuery = int (*)(void* value, int attribute, unsigned long long address);
[[gnu::visibility("hidden")]] extern std::atomic<PointerQuery> pointer_query;
inline constexpr int kMemoryType = 2;    // CU_POINTER_ATTRIBUTE_MEMORY_TYPE
inline constexpr int kInvalidValue = 1;  // CUDA_ERROR_INVALID_VALUE: memory that CUDA does not know
bool is_device_answer(int result, unsigned type, const void* address);

inline bool on_device(const void* address) {
    const PointerQuery query = pointer_query.load(std::memory_order_acquire);
    if (query == nullptr || surely_host(address))
        return false;
    unsigned type = 0;
    const int result = query(&type, kMemoryType, reinterpret_cast<std::uintptr_t>(address));
    return result != kInvalidValue && is_device_answer(result, type, address);
}

struct Identity {  // of a GPU, comparable between processes and hosts
    std::array<std::uint8_t, 16> uuid{};
    std::int32_t pci_domain = 0, pci_bus = 0, pci_device = 0;
};
bool identify(int ordinal, Identity& identity);
std::string device_name(int ordinal);
int device_count();                   // 0 without driver
int compute_capability(int ordinal);  // 90 for 9.0; 0 where the driver does not say

// The calling thread's current device, without memory on it: ordinal and primary context. Ordinal -1 where it has none.
Location current_device();

// Contexts, streams, events, copies.
// Failures are values: 0 is success, anything else a CUresult; describe() gives "CUDA_ERROR_X: text".

using Result = int;
std::string describe(Result result);

// Makes a context current for a scope and restores the caller's.
class ContextScope {
  public:
    explicit ContextScope(Context context);
    ~ContextScope();
    ContextScope(const ContextScope&) = delete;
    ContextScope& operator=(const ContextScope&) = delete;
    Result result() const { return result_; }

  private:
    Result result_;
    bool pushed_ = false;
};

// What the program may have queued before the call and expects to be seen: SWITCHYARD_SYNC.
enum class Sync : std::uint8_t { kNone, kLegacy, kDevice };

class Home;  // what the pools hold in one context (home.hpp)

// A non-blocking stream and an event of one context, from a pool. All work of ours is asynchronous on such a lane,
// completion is polled. As many lanes exist as operations are under way (two operations on one stream could wait for
// each other); kIdleLanes are kept when they are done. May be moved between threads, not used by two at once. None of
// its functions disturbs a stream capture of the program's.
inline constexpr int kIdleLanes = 16;  // per context
class Lane {
  public:
    Lane() = default;
    ~Lane();  // back to the pool; a lane with unfinished work is kept by the pool until it is done
    Lane(Lane&& other) noexcept;
    Lane& operator=(Lane&& other) noexcept;

    static Result acquire(Context context, Lane& lane);
    // The same on a stream of the program's: what is queued here is then in that stream's order. The lane need not end
    // before the stream does, but nothing may be queued any more by then; query() goes on.
    static Result acquire_on(StreamHandle programs, Context context, Lane& lane);
    explicit operator bool() const { return stream_ != nullptr; }

    Context context() const { return context_; }
    StreamHandle stream() const { return stream_; }

    // False once the context was destroyed or reset: its stream and event went with it and must not be used any more.
    bool alive() const;

    // Later work here runs after what the program queued before this call.
    // kLegacy: on the context's legacy default stream and on all streams that synchronise with it (all but those made
    // with
    //   CU_STREAM_NON_BLOCKING). Nothing is waited for while one of them is being captured: what is captured has not
    //   run.
    // kDevice: on any stream of the context. Blocks in cuCtxSynchronize, so work of ours on that device must not wait
    // for this process.
    // Once memory has been seen that any device may move, the primary contexts of all other devices count too: the
    // program may work on it there.
    Result wait_for_program(Sync sync);
    Result copy(void* to, const void* from, std::size_t bytes);  // any kinds of memory; unified addressing
    Result copy_2d(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch, std::size_t width,
                   std::size_t rows);
    // One of the library's kernels, with as many threads as may do something. `parameter` is the caller's again when
    // this returns. Not where the kernels were not to be loaded.
    bool has_kernels() const;
    Result launch(Kernel kernel, std::uint64_t threads, void* parameter);
    // A function of the host's at this place in the stream's order; it must not call CUDA or MPI.
    Result call_host(void (*function)(void*), void* data);
    Result record();           // marks the end of what has been queued
    Result query(bool& done);  // since the last record(); never blocks

    // For the trace: NCCL has put an operation on the stream.
    void launched(std::string_view name, std::size_t bytes, report::trace::Time begin) {
        traced_.launched(name, bytes, begin);
    }

  private:
    void give_back() noexcept;
    Result wait_for_context(Context context, CUevent_st* event, Sync sync);
    Result wait_for_others(Sync sync);

    std::shared_ptr<Home> home_;
    Context context_ = nullptr;
    StreamHandle stream_ = nullptr;
    StreamHandle pooled_ = nullptr;  // what goes back to the pool where the stream is the program's
    CUevent_st* event_ = nullptr;
    report::trace::StreamWork traced_;
};

// The device and context of a stream of the program's (its default streams too); ordinal -1 where the driver does not
// say.
Location locate_stream(StreamHandle programs);
// Can device memory be had and given back in the order of a stream there, and host functions be called?
bool has_stream_order(int ordinal);

// Page-locked host memory. At most settings::Values::pinned_pool bytes per context are page-locked, idle and in use
// together. Where that is exhausted or pinning fails the memory is pageable: copies then still are right, only slower,
// and may block. It stays valid memory when its context is destroyed. Must not be given back before the copies on it
// are done: declare it before the lane that copies.
class Pinned {
  public:
    Pinned() = default;
    ~Pinned();
    Pinned(Pinned&& other) noexcept;
    Pinned& operator=(Pinned&& other) noexcept;

    static Result acquire(Context context, std::size_t bytes, Pinned& pinned);
    void* data() const { return data_; }  // page-aligned; not null even for 0 bytes
    std::size_t size() const { return size_; }
    bool page_locked() const { return page_locked_; }

  private:
    void give_back() noexcept;

    std::shared_ptr<Home> home_;  // null for memory that no pool knows
    void* data_ = nullptr;
    std::size_t size_ = 0;      // as asked for
    std::size_t capacity_ = 0;  // as mapped
    bool page_locked_ = false;
};

// Gives back everything the pools hold; at MPI_Finalize. Safe when the driver is gone or going.
void release_pools();

}  // namespace swy::device
