// The CUDA driver as the rest of Switchyard sees it: where memory lies, copies, streams, events, pinned memory. Only
// this folder includes cuda.h. Everything here works in a process without a driver, and no function makes a context on
// a device on which the program has none. The caller's current context is the same before and after each function.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>

#include "device/host_ranges.hpp"
#include "device/kernels.hpp"
#include "report/trace.hpp"
#include "settings/settings.hpp"

struct CUctx_st;
struct CUstream_st;
struct CUevent_st;

namespace swy::device {

using Context = CUctx_st*;
using StreamHandle = CUstream_st*;  // the same as NCCL's cudaStream_t

// State of the driver in this process.

enum class DriverState : std::uint8_t {
    kNotLoaded,  // nobody has loaded libcuda.so.1 into this process: no device memory can exist here
    kLoaded,     // loaded by the program (or by us, on request), usable
    kUnusable,   // loaded, but entry points are missing or cuInit failed: driver_problem() says what
};
DriverState driver_state();

// Binds the driver (libcuda.so.1) if the program has loaded it into this process; returns true when there is a usable
// one. The driver watch calls this when libraries were loaded; it is cheap and takes no lock of this library. Loads
// nothing and never calls cuInit.
bool adopt_loaded_driver();

// Loads libcuda.so.1 when nobody has (for `switchyard info` and diagnosis only) and initialises it, which nothing else
// here does. Returns the state. A driver without a device is kUnusable; driver_problem() says so.
DriverState load_driver();
std::string driver_problem();  // "", or what is wrong and what to do
std::string driver_text();     // "CUDA 13.0, /path/of/libcuda.so.1"; "" without a usable driver

// Tells whether this node seems to have a GPU driver, without loading any CUDA library: libcuda.so.1 is already loaded,
// or on LD_LIBRARY_PATH (virtual GPUs), or a driver's device files are present. A hint that only decides whether the
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
    bool any_device = false;  // managed memory whose preferred location is the host: the ordinal is that of the nearest
                              // device on which the program has a context, but any of these will do
    std::uintptr_t begin = 0;  // the allocation, [begin, end), where the driver knows it
    std::uintptr_t end = 0;

    // Tells whether MPI must not be given this memory. Managed memory counts: it is treated as device memory
    // throughout.
    bool on_device() const { return kind >= Kind::kManaged; }
};

// The fast test for host buffers: does not call the driver where memory is known to be the host's, otherwise makes one
// call into it (a second one for pinned memory). False without driver, before cuInit, for NULL, host, pinned and freed
// memory. Where the driver no longer answers (the program's context died of an error), memory counts as the host's if
// and only if the host can read it.
inline bool on_device(const void* address);

// The full location of an address. `context` is null where the memory has none and the program has no context on its
// device. Interior pointers belong to their range; one byte past the end of a range belongs to whatever lies there.
Location locate(const void* address);

// The driver function that on_device() calls, without cuda.h: cuPointerGetAttribute while a driver is usable, otherwise
// null.
using PointerQuery = int (*)(void* value, int attribute, unsigned long long address);
[[gnu::visibility("hidden")]] extern std::atomic<PointerQuery> pointer_query;
inline constexpr int kMemoryType = 2;    // CU_POINTER_ATTRIBUTE_MEMORY_TYPE
inline constexpr int kInvalidValue = 1;  // CUDA_ERROR_INVALID_VALUE: memory that CUDA does not know
bool is_device_answer(int result, unsigned type, const void* address);

inline bool on_device(const void* address) {
    const PointerQuery query = pointer_query.load(std::memory_order_acquire);
    if (query == nullptr || known_host(address))
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
// As people and nvidia-smi tell devices of one kind apart: "NAME (00000000:4e:00.0)"; "" where there is none.
std::string in_words(int ordinal);
int device_count();                   // 0 without driver
int compute_capability(int ordinal);  // 90 for 9.0; 0 where the driver does not say
int multiprocessors(int ordinal);     // 0 where the driver does not say

// Tells whether NVLink may connect the device and the GPU `other`: false only where this process sees both and the
// driver knows of no atomics between them, which PCI has not.
bool may_be_linked(int ordinal, const std::array<std::uint8_t, 16>& other);

// The calling thread's current device as ordinal and primary context; no memory is involved. The ordinal is -1 where
// the thread has none.
Location current_device();

// Contexts, streams, events, copies.
// Failures are values: 0 is success, anything else is a CUresult; describe() gives "CUDA_ERROR_X: text".

using Result = int;
std::string describe(Result result);

// Makes a context current for a scope and restores the caller's afterwards. What this thread does meanwhile, calls of
// NCCL included, neither fails because of a stream capture that the program has under way nor invalidates it
// (BesideCapture, driver.hpp).
class ContextScope {
  public:
    explicit ContextScope(Context context);
    ~ContextScope();
    ContextScope(const ContextScope&) = delete;
    ContextScope& operator=(const ContextScope&) = delete;
    Result result() const { return result_; }

  private:
    Result result_;
    int capture_mode_ = 0;  // the caller's
    bool relaxed_ = false, pushed_ = false;
};

class ContextPool;  // context_pool.hpp

// A non-blocking CUDA stream and an event of one context, from a pool. All work of this library is asynchronous on such
// a stream, and its completion is polled. There are as many streams as operations under way (two operations on one
// stream could wait for each other); kIdleStreams are kept when they are done. May be moved between threads, but not
// used by two at once. None of its functions disturbs a stream capture of the program.
inline constexpr int kIdleStreams = 16;  // per context
class Stream {
  public:
    Stream() = default;
    ~Stream();  // returns it to the pool, which keeps a stream with unfinished work until that is done
    Stream(Stream&& other) noexcept;
    Stream& operator=(Stream&& other) noexcept;

    static Result acquire(Context context, Stream& stream);
    // The same on one of the program's streams: what is queued here runs in that stream's order. The object may outlive
    // the program's stream, but nothing may be queued after the stream's end; query() still works.
    static Result acquire_on(StreamHandle programs, Context context, Stream& stream);
    explicit operator bool() const { return stream_ != nullptr; }

    Context context() const { return context_; }
    // For a call that queues something on it.
    StreamHandle stream() { return queue(); }

    // Returns false once the context was destroyed or reset: its stream and event went with it and must not be used any
    // more.
    bool alive() const;

    // Makes later work on this stream run after what the program queued before this call.
    // kMemops: by CUDA's synchronous calls, which locate() has made wait for their end; nothing is left to do then. For
    // memory on which the driver does not do that, as kLegacy.
    // kLegacy: on the context's legacy default stream and on all streams that synchronise with it (all but those made
    // with CU_STREAM_NON_BLOCKING). Nothing is waited for while one of them is being captured: captured work has not
    // run.
    // kDevice: on any stream of the context. Waits until the device is idle and calls `progress` meanwhile: work of
    // ours on it may wait for peers, and they for messages of this process. It must not wait for calls still to be made
    // here. Once memory has been seen that any device may move, the primary contexts of all other devices count too:
    // the program may work on it there. progress::wait_for_program() calls this with SWITCHYARD_SYNC and MPI's
    // progress.
    Result wait_for_program(settings::Sync sync, void (*progress)() = std::this_thread::yield);
    // Whether the stream last did that before locate() met the first memory for which kMemops is as kLegacy.
    bool has_to_wait_again() const;
    Result copy(void* to, const void* from, std::size_t bytes);  // any kinds of memory; unified addressing
    Result copy_2d(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch, std::size_t width,
                   std::size_t rows);
    // Launches one of the library's kernels; `threads` is how many threads can have work. `parameter` may be reused
    // when this returns. Must not be called where has_kernels() is false.
    bool has_kernels() const;
    Result launch(Kernel kernel, std::uint64_t threads, void* parameter);
    // Queues a host function on the stream; it must not call CUDA or MPI.
    Result call_host(void (*function)(void*), void* data);
    Result record();           // marks the end of what has been queued
    Result query(bool& done);  // whether the work before the last record() is done; never blocks

    // Whether the stream is being captured into a graph: then what is queued on it runs at each launch of the graph,
    // and record() and query() must not be called. kLegacy: it is the legacy default stream, which cannot be used while
    // a stream that synchronises with it is captured.
    enum class Capture : std::uint8_t { kNone, kActive, kInvalidated, kLegacy };
    Capture capture() const;

    // For the trace: records that NCCL has put an operation on the stream.
    void launched(std::string_view name, std::size_t bytes, report::trace::Time begin) {
        traced_.launched(name, bytes, begin);
    }

  private:
    void give_back() noexcept;
    StreamHandle queue() {
        work_ = Work::kQueued;
        return stream_;
    }
    Result wait_for_context(Context context, CUevent_st* event, settings::Sync sync, void (*progress)());
    Result wait_for_others(settings::Sync sync, void (*progress)());

    std::shared_ptr<ContextPool> pool_;
    Context context_ = nullptr;
    StreamHandle stream_ = nullptr;
    StreamHandle pooled_ = nullptr;  // the pool's own stream, where stream_ is the program's
    bool knows_memops_ = false;      // memops_may_stay, when it last waited for the program
    // What is known of its work: some is queued, its end is marked by record(), there is none under way.
    enum class Work : std::uint8_t { kQueued, kMarked, kDone } work_ = Work::kQueued;
    CUevent_st* event_ = nullptr;
    report::trace::StreamWork traced_;
};

// The device and context of one of the program's streams (its default streams too); the ordinal is -1 where the driver
// does not say.
Location locate_stream(StreamHandle programs);
// Tells whether the device supports memory that is allocated and freed in stream order, and host functions on streams.
bool has_stream_order(int ordinal);

// Page-locked host memory. At most settings::Values::pinned_pool bytes per context are page-locked, idle and in use
// together. Where that is exhausted or pinning fails the memory is pageable: copies are then still correct, but slower,
// and may block. It stays valid memory when its context is destroyed. It must not be given back before the copies on it
// are done: declare it before the stream that copies.
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

    std::shared_ptr<ContextPool> pool_;  // null for memory that no pool knows
    void* data_ = nullptr;
    std::size_t size_ = 0;      // as requested
    std::size_t capacity_ = 0;  // as mapped
    bool page_locked_ = false;
};

// Frees everything that the pools hold; called at MPI_Finalize. Safe when the driver has shut down or is shutting down.
void release_pools();

}  // namespace swy::device
